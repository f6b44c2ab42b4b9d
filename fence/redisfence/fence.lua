-- Judges a grant and runs the commands of a write. One script, so nothing comes in between.
--
-- KEYS[1]   the fence: a hash of cluster, lock, token (decimal), recent (ids of the last writes), failed (of those that ended
--           midway a line each: id, number of the command, its error)
-- KEYS[2..] what the commands write, named so that a Redis Cluster can refuse keys of another slot before anything runs
-- ARGV      cluster, lock, token, id of this write, "1" to refuse a server that evicts, "1" if the write has been sent before,
--           number of commands, then each with its length before it
local cluster, lock, token, id = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local strict, again, commands = ARGV[5] == '1', ARGV[6] == '1', tonumber(ARGV[7])
local remembered = 16

-- Numbers are doubles here, exact to 2^53; halves of nine digits and ten are exact always.
local function less(a, b)
  if #a ~= #b then return #a < #b end
  local high, low = tonumber(string.sub(a, 1, 9)), tonumber(string.sub(b, 1, 9))
  if high ~= low then return high < low end
  return (tonumber(string.sub(a, 10)) or 0) < (tonumber(string.sub(b, 10)) or 0)
end

-- A token is an int64.
local function decimal(s)
  return s and #s <= 19 and string.find(s, '^[1-9]%d*$') and not less('9223372036854775807', s)
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

-- The failure of the write called name, if it has one.
local function failure(failed, name)
  for line in string.gmatch(failed, '[^\n]+') do
    if string.sub(line, 1, #name) == name then
      local n, message = string.match(string.sub(line, #name + 1), '^(%d+) (.*)$')
      return {'failed', tonumber(n), message}
    end
  end
  return nil
end

-- The failures of those writes that are in recent still.
local function known(failed, recent)
  local kept = {}
  for line in string.gmatch(failed, '[^\n]+') do
    if string.find(recent, string.sub(line, 1, #id), 1, true) then kept[#kept + 1] = line .. '\n' end
  end
  return table.concat(kept)
end

local seen = redis.pcall('HMGET', KEYS[1], 'cluster', 'lock', 'token', 'recent', 'failed')
if seen.err and string.find(seen.err, '^WRONGTYPE') then return {'damaged', seen.err} end
if seen.err then return seen end
local lastCluster, lastLock, lastToken, recent, failed = seen[1], seen[2], seen[3], seen[4] or '', seen[5] or ''

if redis.call('EXISTS', KEYS[1]) == 1 then
  if not (lastCluster and lastLock and decimal(lastToken)) then return {'damaged', 'a field is missing or no token'} end
  if string.find(recent, id, 1, true) then return failure(failed, id) or {'repeated'} end
  if lastLock ~= lock then return {'wrong', lastLock} end
  if less(token, lastToken) or (token == lastToken and cluster ~= lastCluster) then return {'stale', lastToken} end
elseif strict then
  local policy = evicts()
  if policy then return {'evicts', policy} end
end

if commands == 0 and token == lastToken then return {'ok', {}} end
-- With ids forgotten already, an earlier copy of this write may be among those: to run it could be the second time.
if again and commands > 0 and #recent >= remembered * #id then return {'forgotten'} end

-- What can fail comes before the id is kept: by that a repetition is told that the commands have run. Behind it nothing can abort
-- the script any more, not even a lack of memory, since Redis asks for that before a script's first write only.
redis.call('PERSIST', KEYS[1])
if commands > 0 then recent = string.sub(recent .. id, -remembered * #id) end
redis.call('HSET', KEYS[1], 'cluster', cluster, 'lock', lock, 'token', token, 'recent', recent)

local at, replies = 8, {}
for n = 1, commands do
  local words = {}
  for i = 1, tonumber(ARGV[at]) do words[i] = ARGV[at + i] end
  at = at + #words + 1
  local reply = redis.pcall(unpack(words))
  if type(reply) == 'table' and reply.err then
    local message = string.sub(string.gsub(reply.err, '[\r\n]', ' '), 1, 512)
    redis.call('HSET', KEYS[1], 'failed', known(failed, recent) .. id .. n .. ' ' .. message .. '\n')
    return {'failed', n, message}
  end
  replies[n] = reply
end
return {'ok', replies}
