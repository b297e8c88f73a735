using System.Buffers.Text;
using System.Text;
using static System.FormattableString;

namespace Whimbrel.Clusters;

/// <summary>
/// Redis streams for recoverable groups, by one script that counts, appends, trims and reads. Its answers arrive in
/// order among those of other commands. Each script is followed by a PING with a mark, so that the answer before the
/// mark is the script's, also if it is an error. On the bus's loop.
/// </summary>
internal sealed class RedisHistory(RedisBus bus)
{
    /// <summary>Maximum bytes of entries in one answer, unless a single entry is larger.</summary>
    private const int MostPageBytes = 256 * 1024;

    /// <summary>Time for which an unread stream is kept longer than its entries.</summary>
    private const long IdleMs = 60 * 60 * 1000;

    /// <summary>Maximum offset, because a script's numbers are doubles, which are exact up to here.</summary>
    private const ulong MostOffset = 1UL << 53;

    // Two keys: the state of the stream, and its entries, with their offsets as identifiers. A restarted server may
    // have lost entries and would assign their offsets again. The state therefore contains the run_id, and another
    // run_id creates another epoch. Evicted entries count as trimmed. An inconsistent stream is deleted with its epoch.
    private static readonly byte[] s_script = Encoding.ASCII.GetBytes($$"""
        local run = string.match(redis.call('INFO', 'server'), 'run_id:(%w+)')
        local time = redis.call('TIME')
        local now = time[1] * 1000 + math.floor(time[2] / 1000)
        local known = redis.call('HMGET', KEYS[1], 'epoch', 'run', 'last', 'bytes')
        local epoch, last, bytes = known[1], tonumber(known[3] or nil), tonumber(known[4] or nil)
        if not epoch or known[2] ~= run or not last or not bytes then
          epoch, last, bytes = ARGV[1], 0, 0
          redis.call('DEL', KEYS[2])
        end
        local count = redis.call('XLEN', KEYS[2])
        if count == 0 then bytes = 0 end
        for i = 7, #ARGV do
          last, bytes, count = last + 1, bytes + #ARGV[i], count + 1
          local added = redis.pcall('XADD', KEYS[2], string.format('%.0f-0', last), 'd', ARGV[i], 't', now)
          if type(added) == 'table' and added.err then
            redis.call('DEL', KEYS[1], KEYS[2])
            return added
          end
        end
        while count > 0 do
          local oldest = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
          if count <= tonumber(ARGV[2]) and tonumber(oldest[2][4]) >= now - ARGV[4] and (bytes <= tonumber(ARGV[3]) or count == 1) then break end
          redis.call('XDEL', KEYS[2], oldest[1])
          bytes, count = bytes - #oldest[2][2], count - 1
        end
        redis.call('HSET', KEYS[1], 'epoch', epoch, 'run', run, 'last', string.format('%.0f', last), 'bytes', string.format('%.0f', bytes))
        redis.call('PEXPIRE', KEYS[1], ARGV[4] + {{IdleMs}})
        redis.call('PEXPIRE', KEYS[2], ARGV[4] + {{IdleMs}})
        local page = { epoch, string.format('%.0f', last - count + 1), string.format('%.0f', last) }
        local at, room = math.max(tonumber(ARGV[5]), last - count + 1), {{MostPageBytes}}
        for i = 1, math.min(tonumber(ARGV[6]), last - at + 1) do
          local id = string.format('%.0f-0', at)
          local found = redis.call('XRANGE', KEYS[2], id, id)[1]
          if not found then
            redis.call('DEL', KEYS[1], KEYS[2])
            return redis.error_reply('ERR an entry of a recoverable group is missing: its stream starts again')
          end
          local entry = found[2][2]
          room = room - #entry
          if room < 0 and i > 1 then break end
          page[3 + i] = entry
          at = at + 1
        end
        return page
        """);

    private readonly Queue<(string Mark, ulong After, Action<HistoryPage?> Done)> _asked = [];
    private HistoryPage? _answer; // to the first request; null until it has arrived, and if it is invalid
    private long _marks;

    /// <summary>Appends envelopes and reads entries.</summary>
    /// <returns>False if the request was not sent.</returns>
    internal bool Ask(string subject, HistoryLimits limits, ulong after, int most,
        IReadOnlyList<ReadOnlyMemory<byte>> envelopes, Action<HistoryPage?> done)
    {
        if (bus.Link.Session is not { } session || session.BytesPending > BrokerLink.PublishLimitBytes) return false;
        after = Math.Min(after, MostOffset);
        string mark = Invariant($"history {++_marks}");
        RedisCommandWriter command = new();
        // A hash tag puts both keys into one slot, for servers of a Redis cluster.
        string key = $"{bus.Prefix}{{{subject}}}";
        command.Begin(11 + envelopes.Count).Word("EVAL"u8).Word(s_script).Word("2").Word($"{key}:known")
            .Word($"{key}:entries");
        command.Word(Invariant($"{Random.Shared.NextInt64(1, long.MaxValue)}")).Word(Invariant($"{limits.MaxCount}"))
            .Word(Invariant($"{limits.MaxBytes}"));
        command.Word(Invariant($"{(long)limits.MaxAge.TotalMilliseconds}")).Word(Invariant($"{after + 1}"))
            .Word(Invariant($"{most}"));
        foreach (ReadOnlyMemory<byte> envelope in envelopes) command.Word(envelope.Span);
        command.Begin(2).Word("PING"u8).Word(mark);
        if (!session.TryCommand(command.Written)) return false;
        _asked.Enqueue((mark, after, done));
        return true;
    }

    /// <summary>Handles an answer, which may belong to another command.</summary>
    internal void Heard(in RespItem item)
    {
        if (!_asked.TryPeek(out (string Mark, ulong After, Action<HistoryPage?> Done) first)) return;
        if (item.Kind == RespKind.Array)
        {
            _answer = PageOf(item, first.After);
        }
        else if (item.Kind == RespKind.Bulk && Encoding.ASCII.GetString(item.Body) == first.Mark)
        {
            _asked.Dequeue();
            HistoryPage? answer = _answer;
            _answer = null;
            first.Done(answer);
        }
    }

    /// <summary>Ends all requests, because the server was lost and their outcome is unknown.</summary>
    internal void Forget()
    {
        _answer = null;
        // A callback may send a request again, which is rejected because the connection has ended.
        while (_asked.TryDequeue(out (string Mark, ulong After, Action<HistoryPage?> Done) one)) one.Done(null);
    }

    private static HistoryPage? PageOf(in RespItem array, ulong after)
    {
        ReadOnlySpan<byte> rest = array.Body;
        if (array.Count < 3 || !TryNumber(ref rest, out ulong epoch)
            || !TryNumber(ref rest, out ulong first) || !TryNumber(ref rest, out ulong last) || epoch == 0)
            return null;
        ulong at = Math.Max(after + 1, first);
        HistoryEntry[] entries = new HistoryEntry[array.Count - 3];
        for (int i = 0; i < entries.Length; i++)
        {
            RespItem entry = RespReader.Next(ref rest);
            if (entry.Kind != RespKind.Bulk) return null;
            entries[i] = new HistoryEntry(at + (ulong)i, entry.Body.ToArray());
        }

        return new HistoryPage(epoch, first, last, entries);
    }

    private static bool TryNumber(ref ReadOnlySpan<byte> rest, out ulong number)
    {
        RespItem item = RespReader.Next(ref rest);
        number = 0;
        return item.Kind == RespKind.Bulk && Utf8Parser.TryParse(item.Body, out number, out int used)
            && used == item.Body.Length;
    }
}
