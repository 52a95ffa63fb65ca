"""The RSA key pair of the job plugin `ssh`, in the formats that ssh reads."""

from __future__ import annotations

_BITS = 2048
_EXPONENT = 65537


def key_pair(comment: str) -> tuple[str, str]:
    """The private key (PEM, PKCS#1) and the public key (one line for authorized_keys)."""
    # Imported here: most jobs need no keys, and the import takes longer than the rest of a start.
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=_EXPONENT, key_size=_BITS)
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    return private.decode(), f"{public.decode()} {comment}\n"
