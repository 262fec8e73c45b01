-- Ends a running job. KEYS: job, running. ARGV: id, now, status, name and value of its outcome.
-- Returns 1, or 0 when it is not running.

if redis.call('SREM', KEYS[2], ARGV[1]) == 0 or redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], 'status', ARGV[3], 'finished_at', ARGV[2], ARGV[4], ARGV[5])
return 1
