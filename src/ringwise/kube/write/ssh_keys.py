"""The RSA key pair of the job plugin `ssh`, in the formats that ssh reads."""

from __future__ import annotations

#: Keys of the Secret, which are the names of the files.
SSH_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")
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


def public_key_of(private: str) -> str:
    """The public key of a private one; empty when it cannot be read."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    for load in (serialization.load_pem_private_key, serialization.load_ssh_private_key):
        try:
            key = load(private.encode(), password=None)
            public = key.public_key().public_bytes(
                serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
            )
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
        return f"{public.decode()}\n"
    return ""
