using System.Buffers;
using System.Buffers.Text;
using System.Globalization;
using System.Security.Cryptography;
using System.Text;
using Whimbrel.Engines;

namespace Whimbrel.Clusters;

/// <summary>
/// Called once for each payload of a request, with its index and the answer. <paramref name="body"/> is the payload of
/// an answer.
/// </summary>
internal delegate void NatsAnswered(int index, NatsAnswer answer, ReadOnlySpan<byte> body);

/// <summary>
/// Requests with answers: each has a reply subject under an inbox, which is subscribed once per connection, at first
/// use. An unanswered request times out. On the bus's loop.
/// </summary>
internal sealed class NatsRequests(NatsBus bus)
{
    private readonly Dictionary<ulong, (NatsAnswered Done, int Index, long UntilMs)> _waiting = [];
    private readonly string _inbox = $"_INBOX.{Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(12))}.";
    private ulong _last;
    private LoopTimer? _timer;

    internal Loop? Loop { get; set; }

    private TimeSpan Within => bus.Link.Settings.ConnectTimeout;

    /// <summary>Subscription of the inbox; 0 if there is none.</summary>
    internal ulong Number { get; private set; }

    /// <summary>
    /// Sends a request with each payload, all or none. <paramref name="done"/> is called later for each.
    /// </summary>
    /// <returns>False if nothing was sent. <paramref name="done"/> is then not called.</returns>
    internal bool Ask(string subject, IReadOnlyList<ReadOnlyMemory<byte>> payloads, NatsAnswered done)
    {
        if (bus.Link.Session is not { } session || session.BytesPending > BrokerLink.PublishLimitBytes) return false;
        if (Number == 0)
        {
            Number = bus.TakeNumber();
            session.Command(
                Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"SUB {_inbox}* {Number}\r\n")));
        }

        ArrayBufferWriter<byte> bytes = new();
        ulong number = _last;
        foreach (ReadOnlyMemory<byte> payload in payloads)
            NatsLines.WriteRequest(bytes, subject, _inbox + (++number).ToString(CultureInfo.InvariantCulture),
                payload.Span);
        if (!session.TryCommand(bytes.WrittenSpan)) return false;
        for (int i = 0; i < payloads.Count; i++)
            _waiting.Add(++_last, (done, i, Loop!.TimeMs + (long)Within.TotalMilliseconds));
        if (_timer is not { IsActive: true }) Watch();
        return true;
    }

    internal void Heard(in NatsItem message)
    {
        ReadOnlySpan<byte> number = message.Subject[(message.Subject.LastIndexOf((byte)'.') + 1)..];
        // An unknown number is an answer that came too late.
        if (!Utf8Parser.TryParse(number, out ulong of, out int used) || used != number.Length
            || !_waiting.Remove(of, out (NatsAnswered Done, int Index, long UntilMs) one))
            return;
        NatsAnswer answer = StatusOf(message.Headers) switch
        {
            0 => NatsAnswer.Said,
            404 => NatsAnswer.NotFound,
            503 => NatsAnswer.Nobody,
            _ => NatsAnswer.Refused,
        };
        one.Done(one.Index, answer, message.Body);
    }

    /// <summary>Ends all requests, because the connection and its inbox have ended.</summary>
    internal void Forget()
    {
        Number = 0;
        _timer?.Cancel();
        (NatsAnswered Done, int Index, long UntilMs)[] all = [.. _waiting.OrderBy(static w => w.Key)
            .Select(static w => w.Value)];
        _waiting.Clear();
        foreach ((NatsAnswered done, int index, _) in all) done(index, NatsAnswer.None, default);
    }

    /// <summary>
    /// Returns the status. The first header line is <c>NATS/1.0</c>, followed by a number if there is a status.
    /// </summary>
    private static int StatusOf(ReadOnlySpan<byte> headers)
    {
        ReadOnlySpan<byte> prefix = "NATS/1.0 "u8;
        return headers.StartsWith(prefix) && Utf8Parser.TryParse(headers[prefix.Length..], out int status, out _)
            ? status
            : 0;
    }

    private void Watch() => _timer = Loop!.StartTimer(Within / 4, static r => ((NatsRequests)r!).EndLate(), this);

    private void EndLate()
    {
        long now = Loop!.TimeMs;
        ulong[] late = [.. _waiting.Where(w => w.Value.UntilMs <= now).Select(static w => w.Key).Order()];
        foreach (ulong number in late)
        {
            if (_waiting.Remove(number, out (NatsAnswered Done, int Index, long UntilMs) one))
                one.Done(one.Index, NatsAnswer.None, default);
        }

        if (_waiting.Count > 0) Watch();
    }
}
