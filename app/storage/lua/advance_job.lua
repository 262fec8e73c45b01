-- Says what a running job is at, and how far. KEYS: job. ARGV: progress, fraction (both sealed).
-- Returns whether it is to be cancelled.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], 'progress', ARGV[1], 'fraction', ARGV[2])
return redis.call('HEXISTS', KEYS[1], 'cancel_requested_at')
