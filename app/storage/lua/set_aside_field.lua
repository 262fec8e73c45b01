-- Takes a damaged field out of a hash and keeps it on the shard's list.
--
-- KEYS: hash, list of damaged blocks. ARGV: name of the field; SHA-1 of what was seen in it, '' of a
-- field whose name nobody knows; life in seconds. Returns 1, or 0 where there is something else.

local hash, damaged = unpack(KEYS)
local field, seen, life = unpack(ARGV)

local held = redis.call('HGET', hash, field)
if not held or seen ~= '' and redis.sha1hex(held) ~= seen then
  return 0
end
redis.call('LPUSH', damaged, held)
redis.call('LTRIM', damaged, 0, 999)
redis.call('EXPIRE', damaged, life)
redis.call('HDEL', hash, field)
return 1
