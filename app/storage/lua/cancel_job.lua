-- Ends a job that waits, and marks one that runs. What has finished stays as it is.
--
-- KEYS: job, queue, what queued jobs ask for. ARGV: id, now sealed as finished_at, and as
-- cancel_requested_at.

local key, queued, same = unpack(KEYS)
local id, finished_at, requested_at = unpack(ARGV)

local job = redis.call('HMGET', key, 'status', 'kind', 'request')
if job[1] == 'queued' and job[2] and job[3] then
  local asked = job[2] .. ' ' .. job[3]
  if redis.call('HGET', same, asked) == id then
    redis.call('HDEL', same, asked)
  end
  redis.call('LREM', queued, 0, id)
  redis.call('HSET', key, 'status', 'cancelled', 'finished_at', finished_at)
elseif job[1] == 'running' then
  redis.call('HSETNX', key, 'cancel_requested_at', requested_at)
end
