-- Has a staged version wait for approval, in the place of one that waited before.
--
-- KEYS: lease, the staged version, what waits.
-- ARGV: token of the lease, what is to be known of it, seconds until it is dropped.
-- Returns 0 held | 1 the lease is lost | 2 the staged version expired.

local lease, staged, held = unpack(KEYS)
local token, entry, seconds = unpack(ARGV)

if redis.call('GET', lease) ~= token then
  return 1
end
if redis.call('EXPIRE', staged, seconds) == 0 then
  return 2
end
redis.call('SET', held, entry, 'EX', seconds)
return 0
