"""Care for what is stored: fingerprint, backup and restore, check and repair."""
