-- Jobs that share nodes are placed by castell when they start: beside whom they lose least, and never beside an instance of the same
-- program if nothing is known. This plug-in only marks them and has them begin a little later; `castell place --slurm --apply`, which it
-- starts in the background, tells them to begin now. If castell fails, Slurm begins them by itself after `grace`.
--
-- Belongs beside slurm.conf, with JobSubmitPlugins=lua there. See README.md.

local place = "/etc/slurm/castell-place"
-- Seconds after which a job begins if nobody has looked at it.
local grace = 60

-- What Slurm writes where nothing was said: for numbers of 32, 16 and 64 bits.
local unsaid = { [4294967294] = true, [65534] = true, [18446744073709551614] = true }

local function is_said(value)
   return value ~= nil and value ~= "" and value ~= 0 and not unsaid[value]
end

-- Words of a script that are no programs, and those that start programs.
local no_programs = {}
for word in ("if then else elif fi for in do done while until case esac function export set unset cd echo module load source exec time "
   .. "ulimit srun mpirun mpiexec wait exit true false test sleep"):gmatch("%S+") do
   no_programs[word] = true
end

-- A word with the variables in it that the job's environment has.
local function with_variables(job, word)
   return (word:gsub("%${?([%a_][%w_]*)}?", function(name)
      local has, value = pcall(function() return job.environment[name] end)
      if has and type(value) == "string" and #value < 200 then
         return value
      end
   end))
end

-- Words of a job's script that may name its program, for `castell place` to look at later: no file is touched here. Never many, and
-- none that could not stand in a comment.
local function words_of(job)
   local texts = {}
   for line in (job.script or ""):sub(1, 32768):gmatch("[^\n]+") do
      if not line:match("^%s*#") then
         texts[#texts + 1] = line
      end
   end
   if #texts == 0 then
      for at = 0, math.min(tonumber(job.argc) or 0, 16) - 1 do
         texts[#texts + 1] = tostring(job.argv and job.argv[at] or "")
      end
   end
   local words, seen, length = {}, {}, 0
   for _, text in ipairs(texts) do
      for word in text:gsub("[\"']", ""):gmatch("[^%s;|&()<>\"'`=]+") do
         word = with_variables(job, word)
         local is_plain = #word <= 255 and word:match("^[%w%._/${][%w%._/%+%-@:,~${}%%]*$") and word:match("%a")
         if is_plain and not no_programs[word] and not seen[word] and #words < 24 and length < 1024 then
            seen[word] = true
            words[#words + 1] = word
            length = length + #word + 1
         end
      end
   end
   return table.concat(words, " ")
end

-- One slot of one node, anywhere, as soon as possible: all else is Slurm's to place.
local function is_ours(job)
   local single = not is_said(job.min_nodes) or job.min_nodes == 1
   single = single and (not is_said(job.max_nodes) or job.max_nodes == 1)
   local anywhere = not is_said(job.req_nodes) and not is_said(job.exc_nodes) and not is_said(job.features)
      and not is_said(job.reservation) and not is_said(job.tres_per_node) and not is_said(job.licenses)
   local now = not is_said(job.begin_time) or job.begin_time <= os.time()
   now = now and job.priority ~= 0 and not is_said(job.dependency)
   local shared = job.shared ~= 0
   return single and anywhere and now and shared and not is_said(job.admin_comment)
end

-- The shell that has started `castell-place` last. It has ended long ago when the next one is started.
local last

-- Starts it and waits for nothing: os.execute would wait for the shell, which on a busy host takes its time.
local function start_place()
   if last then
      last:close()
   end
   last = io.popen(place .. " >/dev/null 2>&1 </dev/null &")
end

function slurm_job_submit(job, partitions, user)
   local done, failure = pcall(function()
      if is_ours(job) then
         local has_words, words = pcall(words_of, job)
         job.admin_comment = has_words and "castell " .. words or "castell"
         job.begin_time = os.time() + grace
         start_place()
      end
   end)
   if not done then
      slurm.log_error("castell: %s", tostring(failure))
   end
   return slurm.SUCCESS
end

function slurm_job_modify(job, record, partitions, user)
   return slurm.SUCCESS
end

return slurm.SUCCESS
