"""Certificates for our own webhook, made here: an authority and a server certificate on the curve P-256.

Python can use certificates but not make them. What a webhook needs is small: two fixed forms of
certificate, signed a few times a year (docs/decisions says why this is no package). Connections are
protected by OpenSSL as everywhere; nothing of this file runs while one is served.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

# The curve: y² = x³ - 3x + b over the field of _P, the generator (_GX, _GY) of order _N.
_P = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_GX = 0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296
_GY = 0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5
_BYTES = 32

Point = tuple[int, int] | None

_EC_PUBLIC_KEY = (1, 2, 840, 10045, 2, 1)
_P256 = (1, 2, 840, 10045, 3, 1, 7)
_ECDSA_SHA256 = (1, 2, 840, 10045, 4, 3, 2)
_COMMON_NAME = (2, 5, 4, 3)
_BASIC_CONSTRAINTS, _KEY_USAGE = (2, 5, 29, 19), (2, 5, 29, 15)
_ALTERNATIVE_NAMES, _EXTENDED_USAGE = (2, 5, 29, 17), (2, 5, 29, 37)
_SUBJECT_KEY, _AUTHORITY_KEY = (2, 5, 29, 14), (2, 5, 29, 35)
_SERVER_AUTH = (1, 3, 6, 1, 5, 5, 7, 3, 1)
#: Clocks differ a little; a certificate of now must be good everywhere.
_BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: str
    key: str


def make_authority(name: str, now: datetime, lifetime: timedelta) -> Pair:
    secret = _new_secret()
    extensions = [
        _extension(_BASIC_CONSTRAINTS, _sequence(b"\x01\x01\xff"), critical=True),
        # Bits 5 and 6: signs certificates and lists of revoked ones.
        _extension(_KEY_USAGE, b"\x03\x02\x01\x06", critical=True),
    ]
    return Pair(_certificate(name, name, secret, secret, now, lifetime, extensions), _key_pem(secret))


def make_server(
    authority: Pair, issuer: str, names: Iterable[str], now: datetime, lifetime: timedelta
) -> Pair:
    """A server certificate for the given DNS names. Raises ValueError when the authority cannot be read."""
    secret = _new_secret()
    hosts = list(names)
    alternatives = _sequence(*(_tagged(0x82, host.encode("ascii")) for host in hosts))
    extensions = [
        _extension(_BASIC_CONSTRAINTS, _sequence(), critical=True),
        # Bit 0: signs; all that a handshake needs.
        _extension(_KEY_USAGE, b"\x03\x02\x07\x80", critical=True),
        _extension(_EXTENDED_USAGE, _sequence(_oid(_SERVER_AUTH))),
        _extension(_ALTERNATIVE_NAMES, alternatives),
    ]
    signer = secret_of(authority.key)
    made = _certificate("ringwise-admission", issuer, secret, signer, now, lifetime, extensions)
    return Pair(made, _key_pem(secret))


def _certificate(
    subject: str,
    issuer: str,
    secret: int,
    signer: int,
    now: datetime,
    lifetime: timedelta,
    extensions: list[bytes],
) -> str:
    algorithm = _sequence(_oid(_ECDSA_SHA256))
    content = _sequence(
        _tagged(0xA0, _integer(2)),
        _integer(secrets.randbits(126) | 1 << 126),
        algorithm,
        _name(issuer),
        _sequence(_time(now - _BACKDATED), _time(now + lifetime)),
        _name(subject),
        _sequence(_sequence(_oid(_EC_PUBLIC_KEY), _oid(_P256)), _bits(_public(secret))),
        _tagged(0xA3, _sequence(*extensions, *_key_marks(secret, signer))),
    )
    return _pem("CERTIFICATE", _sequence(content, algorithm, _bits(_sign(signer, content))))


def _key_marks(secret: int, signer: int) -> Iterable[bytes]:
    """Whose key it is and whose signature: strict readers want both named."""
    yield _extension(_SUBJECT_KEY, _tagged(0x04, _mark(secret)))
    yield _extension(_AUTHORITY_KEY, _sequence(_tagged(0x80, _mark(signer))))


def _mark(secret: int) -> bytes:
    return hashlib.sha256(_public(secret)).digest()[:20]


# -- the curve


def _add(a: Point, b: Point) -> Point:
    if a is None or b is None:
        return a if b is None else b
    if a[0] == b[0] and (a[1] + b[1]) % _P == 0:
        return None
    if a == b:
        slope = (3 * a[0] * a[0] - 3) * pow(2 * a[1], -1, _P) % _P
    else:
        slope = (b[1] - a[1]) * pow(b[0] - a[0], -1, _P) % _P
    x = (slope * slope - a[0] - b[0]) % _P
    return x, (slope * (a[0] - x) - a[1]) % _P


def _multiplied(factor: int) -> tuple[int, int]:
    """That many times the generator."""
    result: Point = None
    power: Point = (_GX, _GY)
    while factor:
        if factor & 1:
            result = _add(result, power)
        power = _add(power, power)
        factor >>= 1
    assert result is not None, "a factor below the order never ends at infinity"
    return result


def _new_secret() -> int:
    return secrets.randbelow(_N - 1) + 1


def _public(secret: int) -> bytes:
    x, y = _multiplied(secret)
    return b"\x04" + x.to_bytes(_BYTES, "big") + y.to_bytes(_BYTES, "big")


def _sign(secret: int, content: bytes) -> bytes:
    digest = int.from_bytes(hashlib.sha256(content).digest(), "big")
    while True:
        nonce = _new_secret()
        r = _multiplied(nonce)[0] % _N
        s = pow(nonce, -1, _N) * (digest + r * secret) % _N
        if r and s:
            return _sequence(_integer(r), _integer(s))


# -- DER


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _integer(number: int) -> bytes:
    # One bit more than needed: a leading 1 would mean a negative number.
    return _tagged(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    return _tagged(0x03, b"\0" + content)


def _oid(arcs: tuple[int, ...]) -> bytes:
    content = bytearray((arcs[0] * 40 + arcs[1],))
    for arc in arcs[2:]:
        groups = [arc & 0x7F]
        while arc := arc >> 7:
            groups.append(arc & 0x7F | 0x80)
        content.extend(reversed(groups))
    return _tagged(0x06, bytes(content))


def _name(common: str) -> bytes:
    text = _tagged(0x0C, common.encode())
    return _sequence(_tagged(0x31, _sequence(_oid(_COMMON_NAME), text)))


def _time(moment: datetime) -> bytes:
    """Years before 2050 are written with two digits."""
    moment = moment.astimezone(UTC)
    if moment.year < 2050:
        return _tagged(0x17, moment.strftime("%y%m%d%H%M%SZ").encode())
    return _tagged(0x18, moment.strftime("%Y%m%d%H%M%SZ").encode())


def _extension(oid: tuple[int, ...], value: bytes, *, critical: bool = False) -> bytes:
    return _sequence(_oid(oid), b"\x01\x01\xff" if critical else b"", _tagged(0x04, value))


# -- PEM


def _pem(kind: str, content: bytes) -> str:
    lines = "\n".join(textwrap.wrap(base64.b64encode(content).decode(), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"


def _key_pem(secret: int) -> str:
    content = _sequence(
        _integer(1),
        _tagged(0x04, secret.to_bytes(_BYTES, "big")),
        _tagged(0xA0, _oid(_P256)),
        _tagged(0xA1, _bits(_public(secret))),
    )
    return _pem("EC PRIVATE KEY", content)


def secret_of(pem: str) -> int:
    """The number in a key that `_key_pem` wrote: it stands at a fixed place."""
    body = "".join(line for line in pem.split("\n") if line and not line.startswith("-----"))
    content = base64.b64decode(body, validate=True)
    if len(content) < 39 or content[2:7] != b"\x02\x01\x01\x04\x20":
        raise ValueError("the key of the authority is not one that Ringwise made")
    return int.from_bytes(content[7:39], "big")
