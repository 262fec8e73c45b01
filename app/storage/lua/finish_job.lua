-- Ends a running job. KEYS: job, running. ARGV: id, now (sealed), status, name and value (sealed) of
-- its outcome. Returns 1, or 0 when it is not running.

local listed = redis.call('SREM', KEYS[2], ARGV[1]) == 1
local status = redis.call('HGET', KEYS[1], 'status')
if not status or not listed and status ~= 'running' then
  return 0
end
redis.call('HSET', KEYS[1], 'status', ARGV[3], 'finished_at', ARGV[2], ARGV[4], ARGV[5])
return 1
