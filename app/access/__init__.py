"""Who may do what, and who did: API keys with scopes, their limits, and the audit log.

`keys.py` has a key, the token that a caller sends, and the table that finds one; `key_store.py`
keeps keys in Redis as digests; `key_watch.py` holds the table of a process current, and a copy on
the host's disk. `rate_limit.py` bounds the requests of one key. `audit.py` chains the changes by
admins.
"""
