-- Starts the oldest queued job that has not expired.
--
-- KEYS: queue, running, what queued jobs ask for. ARGV: now (sealed), prefix of job keys.
-- Returns its id, or nothing; and ids on the way that are of no queued job.

local queued, running, same = unpack(KEYS)
local now, prefix = unpack(ARGV)

local skipped = {}
local id = redis.call('LPOP', queued)
while id do
  local job = redis.call('HMGET', prefix .. id, 'kind', 'request', 'status')
  if job[3] == 'queued' and job[1] and job[2] then
    local asked = job[1] .. ' ' .. job[2]
    if redis.call('HGET', same, asked) == id then
      redis.call('HDEL', same, asked) -- else another job that asks for the same still waits
    end
    redis.call('HSET', prefix .. id, 'status', 'running', 'started_at', now)
    redis.call('SADD', running, id)
    return { id, skipped }
  end
  skipped[#skipped + 1] = id
  id = redis.call('LPOP', queued)
end
redis.call('DEL', same) -- nothing waits: what is left belongs to jobs that expired
return { '', skipped }
