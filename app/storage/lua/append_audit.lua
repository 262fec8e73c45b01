-- Appends an entry to the audit log, unless another one came first.
--
-- KEYS: the entries, the head.
-- ARGV: the head that the entry follows, the head from now on, the entry, most entries to keep.
-- Returns 1, or 0 when the head is another.

local entries, head = unpack(KEYS)
local before, after, entry, most = unpack(ARGV)

if (redis.call('GET', head) or '') ~= before then
  return 0
end
redis.call('RPUSH', entries, entry)
redis.call('LTRIM', entries, -tonumber(most), -1)
redis.call('SET', head, after)
return 1
