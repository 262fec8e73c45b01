-- Queues running jobs again, ahead of those that wait.
--
-- KEYS: queue, running, what queued jobs ask for. ARGV: prefix of job keys. Returns how many,
-- and what is the id of no running job.

local queued, running, same = unpack(KEYS)
local prefix = ARGV[1]

local ids = redis.call('SMEMBERS', running)
table.sort(ids)
local requeued, skipped = 0, {}
for place = #ids, 1, -1 do
  local id = ids[place]
  local job = redis.call('HMGET', prefix .. id, 'kind', 'request', 'status')
  if job[3] == 'running' and job[1] and job[2] then
    redis.call('HSET', prefix .. id, 'status', 'queued')
    redis.call('HDEL', prefix .. id, 'started_at')
    redis.call('HSETNX', same, job[1] .. ' ' .. job[2], id)
    redis.call('LPUSH', queued, id)
    requeued = requeued + 1
  else
    skipped[#skipped + 1] = id
  end
end
redis.call('DEL', running)
return { requeued, skipped }
