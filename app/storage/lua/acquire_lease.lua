-- Grants a lease that nobody holds. KEYS: lease, fence. ARGV: holder, ttl in milliseconds.
-- Returns the number of the grant, or 0.

if redis.call('EXISTS', KEYS[1]) == 1 then
  return 0
end
local number = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], number .. ':' .. ARGV[1], 'PX', ARGV[2])
return number
