using System.Diagnostics;

namespace Whimbrel.Tool;

/// <summary>
/// Broadcasts numbered messages from a thread of its own: at a rate, or as many as the clients take. Each client sees
/// strictly increasing numbers, with gaps where it was too slow.
/// </summary>
internal sealed class PushProducer : IDisposable
{
    // WaitForRoomAsync leaves half a mailbox of broadcasts free. Waiting again after this many bytes means that, with
    // this one producer, Broadcast does not return Full.
    private const int BytesBetweenWaits = 32 * 1024;

    // If a producer with a rate is later than this, it skips messages instead of catching up.
    private static readonly TimeSpan s_longestDebt = TimeSpan.FromSeconds(1);

    /// <summary>Interval at which the producer checks whether it must end.</summary>
    private static readonly TimeSpan s_longestWait = TimeSpan.FromMilliseconds(250);

    private readonly AutoResetEvent _wake = new(false);
    private readonly byte[] _messages;
    private readonly PushSettings _settings;
    private readonly Thread _thread;
    private Server? _server;
    private long _sent;
    private ulong _sequence;
    private volatile bool _isStopping;

    internal PushProducer(PushSettings settings)
    {
        _settings = settings;
        _messages = new byte[settings.Size * settings.Batch];
        _thread = new Thread(Run) { IsBackground = true, Name = "push" };
    }

    /// <summary>Number of messages broadcast so far, each counted once. Any thread.</summary>
    internal long Sent => Volatile.Read(ref _sent);

    internal void Start(Server server)
    {
        _server = server;
        _thread.Start();
    }

    /// <summary>Wakes the thread, because a client has connected. Any thread.</summary>
    internal void Wake() => _wake.Set();

    /// <summary>Ends the thread; nothing is broadcast after it returns.</summary>
    public void Dispose()
    {
        _isStopping = true;
        _wake.Set();
        if (_server is not null) _thread.Join();
        _wake.Dispose();
    }

    private void Run()
    {
        SessionGroup clients = _server!.Sessions;
        while (!_isStopping)
        {
            // The time limit is for a client that is counted only after it has woken us.
            if (clients.Count == 0) _wake.WaitOne(50);
            else if (_settings.Rate == 0) SendFlatOut(clients);
            else SendAtRate(clients);
        }
    }

    private void SendFlatOut(SessionGroup clients)
    {
        int credit = 0;
        while (!_isStopping && clients.Count > 0) Send(clients, _settings.Batch, ref credit);
    }

    /// <summary>Sends at the rate. Due messages are counted from one start, so that delays of single sends do not add
    /// up.</summary>
    private void SendAtRate(SessionGroup clients)
    {
        long start = Stopwatch.GetTimestamp();
        long sent = 0;
        int credit = 0;
        while (!_isStopping && clients.Count > 0)
        {
            TimeSpan elapsed = Stopwatch.GetElapsedTime(start);
            long due = (long)(elapsed.TotalSeconds * _settings.Rate) - sent;
            if (due <= 0)
            {
                double waitMs = ((sent + 1.0) / _settings.Rate - elapsed.TotalSeconds) * 1000;
                _wake.WaitOne((int)Math.Clamp(Math.Ceiling(waitMs), 1, 100));
                continue;
            }

            if (due > _settings.Rate * s_longestDebt.TotalSeconds)
            {
                start = Stopwatch.GetTimestamp();
                sent = 0;
                due = 1;
            }

            int count = (int)Math.Min(due, _settings.Batch);
            if (Send(clients, count, ref credit)) sent += count;
        }
    }

    /// <summary>
    /// Returns false if there was no room: no client received the messages, and their numbers are used again.
    /// </summary>
    private bool Send(SessionGroup clients, int count, ref int credit)
    {
        int bytes = count * _settings.Size;
        if (credit < bytes || clients.IsCongested)
        {
            // With a time limit, and without AsTask: the loop sets the signal directly, so no pool thread is needed.
            if (!clients.WaitForRoom(s_longestWait)) return false;
            credit = BytesBetweenWaits;
        }

        for (int i = 0; i < count; i++) PushMessage.Write(_messages.AsSpan(i * _settings.Size), ++_sequence);

        if (clients.Broadcast(_messages.AsSpan(0, bytes)) == SendResult.Full)
        {
            _sequence -= (ulong)count;
            credit = 0;
            return false;
        }

        credit -= bytes;
        Volatile.Write(ref _sent, _sent + count);
        return true;
    }
}
