-- Judges a grant and runs the commands of a write. One script, so nothing comes in between.
--
-- KEYS[1]   the fence: a hash of cluster, lock, token (decimal), recent (ids of the last writes), failed (id, number and
--           error of a write that ended midway)
-- KEYS[2..] what the commands write, named so that a Redis Cluster can refuse keys of another slot before anything runs
-- ARGV      cluster, lock, token, id of this write, "1" to refuse a server that evicts, number of commands, then each with
--           its length before it
local cluster, lock, token, id, strict = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local remembered = 16

local function decimal(s)
  return s and #s <= 19 and string.find(s, '^[1-9]%d*$')
end

-- Numbers are doubles here, exact to 2^53; halves of nine digits and ten are exact always.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  local high, low = tonumber(string.sub(a, 1, 9)), tonumber(string.sub(b, 1, 9))
  if high ~= low then return high < low end
  return (tonumber(string.sub(a, 10)) or 0) < (tonumber(string.sub(b, 10)) or 0)
end

-- The fence has no TTL, so of all policies only those for all keys evict it.
local function evicts()
  local info = redis.pcall('INFO', 'memory')
  if type(info) ~= 'string' then return false end -- not permitted here
  local most = string.match(info, 'maxmemory:(%d+)')
  local policy = string.match(info, 'maxmemory_policy:([%w-]+)')
  if most and most ~= '0' and policy and string.find(policy, '^allkeys') then return policy end
  return false
end

local seen = redis.pcall('HMGET', KEYS[1], 'cluster', 'lock', 'token', 'recent', 'failed')
if seen.err then return {'damaged', seen.err} end
local lastCluster, lastLock, lastToken, recent, failed = seen[1], seen[2], seen[3], seen[4] or '', seen[5]

if redis.call('EXISTS', KEYS[1]) == 1 then
  if not (lastCluster and lastLock and decimal(lastToken)) then return {'damaged', 'a field is missing or no number'} end
  if string.find(recent, id, 1, true) then
    if failed and string.sub(failed, 1, #id) == id then
      local n, message = string.match(string.sub(failed, #id + 1), '^(%d+) (.*)$')
      return {'failed', tonumber(n), message}
    end
    return {'repeated'}
  end
  if lastLock ~= lock then return {'wrong', lastLock} end
  if less(token, lastToken) or (token == lastToken and cluster ~= lastCluster) then return {'stale', lastToken} end
elseif strict == '1' then
  local policy = evicts()
  if policy then return {'evicts', policy} end
end

local commands = tonumber(ARGV[6])
if commands == 0 and token == lastToken then return {'ok', {}} end
if commands > 0 then recent = string.sub(recent .. id, -remembered * #id) end
redis.call('HSET', KEYS[1], 'cluster', cluster, 'lock', lock, 'token', token, 'recent', recent)
redis.call('PERSIST', KEYS[1])

local at, replies = 7, {}
for n = 1, commands do
  local words = {}
  for i = 1, tonumber(ARGV[at]) do words[i] = ARGV[at + i] end
  at = at + #words + 1
  local reply = redis.pcall(unpack(words))
  if type(reply) == 'table' and reply.err then
    redis.call('HSET', KEYS[1], 'failed', id .. n .. ' ' .. reply.err)
    return {'failed', n, reply.err}
  end
  replies[n] = reply
end
return {'ok', replies}
