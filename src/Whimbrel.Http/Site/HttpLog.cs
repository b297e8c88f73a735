using System.Buffers.Text;
using System.Text;

namespace Whimbrel.Http;

/// <summary>
/// Access log in the combined format, one line per response: <c>new HttpOptions { Log = new
/// HttpLog(File.Open("access.log", FileMode.Append)) }</c>. Lines are queued in memory, up to a limit, and written by a
/// task. If the task is too slow, lines are dropped and counted, and the log contains their number. Loops never wait
/// for it. Several servers may share one. Dispose it after them.
/// </summary>
public sealed class HttpLog : IAsyncDisposable
{
    private const int DefaultLimit = 1024 * 1024;
    private const int MostFieldBytes = 2048;
    private const int FixedBytes = 256;
    private static readonly TimeSpan s_patience = TimeSpan.FromSeconds(5);

    [ThreadStatic]
    private static byte[]? t_line;

    [ThreadStatic]
    private static byte[]? t_time;

    [ThreadStatic]
    private static long t_timeUntilMs;

    private readonly Stream _stream;
    private readonly int _limit;
    private readonly Lock _lock = new();
    private readonly SemaphoreSlim _wake = new(0);
    private readonly Task _writing;

    // Under the lock: queued lines, and the number dropped since the last of them.
    private byte[] _lines;
    private byte[] _spare;
    private int _length;
    private int _count;
    private long _leftOut;
    private bool _isAwake;
    private bool _isOver;
    private long _lost;

    /// <summary>Creates a log that writes to a stream.</summary>
    /// <param name="stream">Stream, written by one task, flushed after each write, and disposed with the log.</param>
    /// <param name="limitBytes">Largest size of queued lines in bytes: 4 KiB to 1 GiB; default 1 MiB.</param>
    public HttpLog(Stream stream, int limitBytes = DefaultLimit)
    {
        ArgumentNullException.ThrowIfNull(stream);
        if (limitBytes is < 4096 or > 1 << 30)
            throw new ArgumentOutOfRangeException(nameof(limitBytes), limitBytes, "4 KiB up to 1 GiB is possible.");
        _stream = stream;
        _limit = limitBytes;
        _lines = new byte[4096];
        _spare = new byte[4096];
        _writing = Task.Run(WriteAsync);
    }

    /// <summary>Number of lines lost, because the queue was full or the stream failed. Any thread.</summary>
    public long LostLines => Volatile.Read(ref _lost);

    /// <summary>Last exception of the stream; null if there was none.</summary>
    public Exception? Failure { get; private set; }

    // ------------------------------------------------------------------ one line, on any thread

    /// <summary>Adds a line for a response. <paramref name="known"/> is null if the head of the request could not be
    /// read.</summary>
    internal void Add(ReadOnlySpan<byte> peer, HttpRequest? known, int status, long bodyBytes)
    {
        byte[] line = t_line ??= new byte[FixedBytes + 4 * MostFieldBytes];
        Writer text = new(line);
        text.Add(peer);
        text.Add(" - - ["u8);
        text.Add(Time());
        text.Add("] \""u8);
        if (known is not { } request)
        {
            text.Add("-"u8);
        }
        else
        {
            text.AddEscaped(request.Method, MostFieldBytes);
            text.Add(" "u8);
            text.AddEscaped(request.Target, MostFieldBytes);
            text.Add(request.MinorVersion == 0 ? " HTTP/1.0"u8 : " HTTP/1.1"u8);
        }

        text.Add("\" "u8);
        text.Add(status);
        text.Add(" "u8);
        text.Add(bodyBytes);
        text.Add(" \""u8);
        text.AddEscaped(known is { } from ? from[HttpField.Referer] : default, MostFieldBytes);
        text.Add("\" \""u8);
        text.AddEscaped(known is { } by ? by[HttpField.UserAgent] : default, MostFieldBytes);
        text.Add("\"\n"u8);
        Queue(text.Written);
    }

    private static ReadOnlySpan<byte> Time()
    {
        long nowMs = Environment.TickCount64;
        if (t_time is not null && nowMs < t_timeUntilMs) return t_time;
        DateTime now = DateTime.UtcNow;
        t_time = Encoding.ASCII.GetBytes(now.ToString("dd'/'MMM'/'yyyy':'HH':'mm':'ss' +0000'",
            System.Globalization.CultureInfo.InvariantCulture));
        t_timeUntilMs = nowMs + 1000 - now.Millisecond;
        return t_time;
    }

    private void Queue(ReadOnlySpan<byte> line)
    {
        bool wakes;
        lock (_lock)
        {
            if (_isOver || _length + line.Length > _limit)
            {
                _leftOut++;
                _lost++;
                return;
            }

            if (_length + line.Length > _lines.Length)
                Array.Resize(ref _lines, (int)Math.Min(_limit, Math.Max(_length + line.Length, _lines.Length * 2L)));
            line.CopyTo(_lines.AsSpan(_length));
            _length += line.Length;
            _count++;
            wakes = !_isAwake;
            _isAwake = true;
        }

        if (wakes) _wake.Release();
    }

    // ------------------------------------------------------------------ the writing task

    private async Task WriteAsync()
    {
        while (true)
        {
            byte[] lines;
            int length, count;
            long leftOut;
            lock (_lock)
            {
                (lines, length, count, leftOut) = (_lines, _length, _count, _leftOut);
                (_lines, _spare) = (_spare, _lines);
                _length = _count = 0;
                _leftOut = 0;
                if (length == 0 && leftOut == 0)
                {
                    if (_isOver) return;
                    _isAwake = false;
                }
            }

            if (length == 0 && leftOut == 0)
            {
                await _wake.WaitAsync().ConfigureAwait(false);
                continue;
            }

            try
            {
                await _stream.WriteAsync(lines.AsMemory(0, length)).ConfigureAwait(false);
                // The dropped lines came after the queued ones.
                if (leftOut > 0)
                    await _stream.WriteAsync(Encoding.ASCII.GetBytes(
                        $"# {leftOut} lines are left out here: the log could not be written fast enough\n"))
                        .ConfigureAwait(false);
                await _stream.FlushAsync().ConfigureAwait(false);
            }
            catch (Exception e)
            {
                Failure = e;
                bool waits;
                lock (_lock)
                {
                    _lost += count;
                    _leftOut += count + leftOut; // reported when the stream works again
                    if (_isOver && length == 0) return;
                    // Without new lines there is no reason to retry.
                    waits = _length == 0 && !_isOver;
                    if (waits) _isAwake = false;
                }

                if (waits) await _wake.WaitAsync().ConfigureAwait(false);
            }
        }
    }

    /// <summary>Writes queued lines, for at most 5 s, and disposes the stream. Later lines are lost.</summary>
    public async ValueTask DisposeAsync()
    {
        lock (_lock)
        {
            if (_isOver) return;
            _isOver = true;
        }

        _wake.Release();
        await _writing.WaitAsync(s_patience).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await _stream.DisposeAsync().ConfigureAwait(false);
    }

    /// <summary>Writes a line into a buffer that is large enough for the longest one.</summary>
    private ref struct Writer(Span<byte> room)
    {
        private readonly Span<byte> _room = room;
        private int _length;

        internal readonly ReadOnlySpan<byte> Written => _room[.._length];

        internal void Add(ReadOnlySpan<byte> text)
        {
            text.CopyTo(_room[_length..]);
            _length += text.Length;
        }

        internal void Add(long number)
        {
            Utf8Formatter.TryFormat(number, _room[_length..], out int written);
            _length += written;
        }

        /// <summary>Adds text. Bytes that would end the field or the line, or control a terminal, become <c>\xHH</c>.
        /// Empty text becomes a dash; cut text ends with three dots.</summary>
        internal void AddEscaped(ReadOnlySpan<byte> text, int most)
        {
            if (text.IsEmpty) Add("-"u8);
            int end = _length + most - 8;
            foreach (byte b in text)
            {
                if (_length >= end)
                {
                    Add("..."u8);
                    return;
                }

                if (b is >= 0x20 and < 0x7F and not ((byte)'"' or (byte)'\\')) _room[_length++] = b;
                else
                {
                    Add("\\x"u8);
                    Utf8Formatter.TryFormat(b, _room[_length..], out _, new System.Buffers.StandardFormat('X', 2));
                    _length += 2;
                }
            }
        }
    }
}
