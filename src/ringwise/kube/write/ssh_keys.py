"""An RSA key pair for the pods of one job, in the forms ssh reads.

Made here, so that the image needs neither ssh-keygen nor a cryptography package. Such a key protects
the pods of a job from each other's neighbours for as long as the job terms, and nothing else.
"""

from __future__ import annotations

import base64
import secrets
import textwrap

_BITS = 2048
_EXPONENT = 65537
_ROUNDS = 40
_SMALL = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97)


def key_pair(comment: str, bits: int = _BITS) -> tuple[str, str]:
    """The private key (PEM, PKCS#1) and the public key (one line for authorized_keys)."""
    while True:
        p, q = _prime(bits // 2), _prime(bits // 2)
        order = (p - 1) * (q - 1)
        if p != q and order % _EXPONENT:
            break
    modulus = p * q
    private = pow(_EXPONENT, -1, order)
    numbers = (0, modulus, _EXPONENT, private, p, q, private % (p - 1), private % (q - 1), pow(q, -1, p))
    body = base64.b64encode(_der_sequence(numbers)).decode()
    lines = "\n".join(textwrap.wrap(body, 64))
    pem = f"-----BEGIN RSA PRIVATE KEY-----\n{lines}\n-----END RSA PRIVATE KEY-----\n"
    blob = b"".join(_ssh_field(part) for part in (b"ssh-rsa", _signed(_EXPONENT), _signed(modulus)))
    return pem, f"ssh-rsa {base64.b64encode(blob).decode()} {comment}\n"


def _prime(bits: int) -> int:
    while True:
        # The two highest bits are set, so that a product of two has its full length.
        candidate = secrets.randbits(bits) | (3 << (bits - 2)) | 1
        if all(candidate % small for small in _SMALL) and _is_prime(candidate):
            return candidate


def _is_prime(number: int) -> bool:
    """Miller and Rabin's test; a wrong answer is less likely than a broken machine."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(_ROUNDS):
        power = pow(secrets.randbelow(number - 3) + 2, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = pow(power, 2, number)
            if power == number - 1:
                break
        else:
            return False
    return True


def _signed(number: int) -> bytes:
    """Big endian, with a zero byte in front where the first bit would mean a minus."""
    return number.to_bytes(number.bit_length() // 8 + 1, "big")


def _der_length(length: int) -> bytes:
    if length < 128:
        return bytes([length])
    body = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(body)]) + body


def _der_sequence(numbers: tuple[int, ...]) -> bytes:
    content = b"".join(b"\x02" + _der_length(len(part)) + part for part in map(_signed, numbers))
    return b"\x30" + _der_length(len(content)) + content


def _ssh_field(part: bytes) -> bytes:
    return len(part).to_bytes(4, "big") + part
