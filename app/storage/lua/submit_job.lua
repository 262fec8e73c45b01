-- Queues a job, unless one that asks for the same is waiting.
--
-- KEYS: what queued jobs ask for, queue, counter of jobs.
-- ARGV: kind, request, now (all three sealed), most jobs that may wait, life of a job in seconds,
--   prefix of job keys.
-- Returns the job's id, or nil when the queue is full.

local same, queued, sequence = unpack(KEYS)
local kind, request, now, limit, life, prefix = unpack(ARGV)

local asked = kind .. ' ' .. request
local waiting = redis.call('HGET', same, asked)
if waiting then
  local job = redis.call('HMGET', prefix .. waiting, 'kind', 'request', 'status')
  if job[1] == kind and job[2] == request and job[3] == 'queued' then
    return waiting
  end
end
if redis.call('LLEN', queued) >= tonumber(limit) then
  return false
end

local id
repeat
  id = string.format('%06d', redis.call('INCR', sequence))
until redis.call('EXISTS', prefix .. id) == 0 -- a damaged counter may go back
redis.call('HSET', prefix .. id,
  'kind', kind, 'request', request, 'status', 'queued', 'created_at', now)
redis.call('EXPIRE', prefix .. id, life)
redis.call('HSET', same, asked, id)
redis.call('RPUSH', queued, id)
return id
