"""Certificates of the admission webhook: an authority, and the server certificate that it signs.

Both have keys on the curve P-256 and are signed with ECDSA and SHA-256.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ringwise.records import dataclass

SERVER_NAME = "ringwise-admission"
#: Clocks of a cluster differ a little; a new certificate must be valid for all of them.
_BACKDATED = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, both PEM."""

    certificate: str
    key: str


def make_authority(name: str, now: datetime, lifetime: timedelta) -> Pair:
    """A self-signed authority that may sign server certificates only."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = (
        _builder(subject, subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()),
            critical=False,
        )
    )
    return _signed(builder, key, key)


def make_server(authority: Pair, names: Iterable[str], now: datetime, lifetime: timedelta) -> Pair:
    """A server certificate for the given DNS names. Raises ValueError when the authority cannot be used."""
    issuer, issuer_key = parse_pair(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_name(SERVER_NAME), issuer.subject, key.public_key(), now, lifetime)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(_authority_identifier(issuer), critical=False)
    )
    return _signed(builder, key, issuer_key)


def created_at(certificate: x509.Certificate) -> datetime:
    """Return when a certificate of ours was created."""
    return certificate.not_valid_before_utc + _BACKDATED


def parse_pair(pair: Pair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """The certificate and its key. Raises ValueError when they cannot be read or do not belong together."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        key = serialization.load_pem_private_key(pair.key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(f"the certificate or its key cannot be read: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise ValueError("the key does not belong to the certificate")
    return certificate, key


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    lifetime: timedelta,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Pair:
    certificate = builder.sign(signer, hashes.SHA256())
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )


def _authority_identifier(issuer: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    """The identifier that the authority's certificate carries, however it was computed."""
    own = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(own)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
