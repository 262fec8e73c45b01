-- Grants a lease that nobody holds. KEYS: lease, fence. ARGV: holder, ttl in milliseconds.
-- Returns the number of the grant, or 0.

-- A lease without an end is junk.
if redis.call('PTTL', KEYS[1]) >= 0 then
  return 0
end
local number = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], number .. ':' .. ARGV[1], 'PX', ARGV[2])
return number
