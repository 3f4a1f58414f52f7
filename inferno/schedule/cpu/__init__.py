"""The CPU: ``loops``, and ``library`` for contractions that torch's library computes."""
