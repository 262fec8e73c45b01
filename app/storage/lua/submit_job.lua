-- Queues a job, unless one that asks for the same is waiting.
--
-- KEYS: what queued jobs ask for, queue, counter of jobs.
-- ARGV: kind, request, now, most jobs that may wait, life of a job in seconds, prefix of job keys.
-- Returns the job's id, or nil when the queue is full.

local same, queued, sequence = unpack(KEYS)
local kind, request, now, limit, life, prefix = unpack(ARGV)

local asked = kind .. ' ' .. request
local waiting = redis.call('HGET', same, asked)
if waiting and redis.call('EXISTS', prefix .. waiting) == 1 then
  return waiting
end
if redis.call('LLEN', queued) >= tonumber(limit) then
  return false
end

local id = string.format('%06d', redis.call('INCR', sequence))
redis.call('HSET', prefix .. id,
  'kind', kind, 'request', request, 'status', 'queued', 'created_at', now)
redis.call('EXPIRE', prefix .. id, life)
redis.call('HSET', same, asked, id)
redis.call('RPUSH', queued, id)
return id
