"""Who may do what, and who did: API keys with scopes, and the audit log.

`keys.py` has a key, the token that a caller sends, the table that finds one, and the limit of its
requests; `key_store.py` keeps keys in Redis as digests; `key_watch.py` holds the table of a process
current, and a copy on the host's disk. `audit.py` chains the changes by admins.
"""
