using System.Globalization;
using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// One connection to a broker. Limits the time of the greeting, sends pings, and ends with the first error. On the
/// bus's loop.
/// </summary>
internal sealed class BrokerSession(BrokerLink link, IBrokerProtocol protocol) : Session
{
    private const int MostReservedBytes = 32 * 1024;
    private const int MostShownLength = 160;

    private static readonly byte[] s_lineEnd = "\r\n"u8.ToArray();

    private long _passOver; // remaining bytes of a payload above the limit
    private LoopTimer? _greeting;
    private LoopTimer? _pings;
    private string? _wrong; // the first error

    internal IBrokerProtocol Protocol => protocol;

    /// <summary>Whether the greeting is complete and messages may be exchanged.</summary>
    internal bool IsOpen { get; private set; }

    /// <summary>Whether an error has occurred; nothing more is read.</summary>
    internal bool IsOver { get; private set; }

    /// <summary>Queues a message; messages of one loop turn are sent together.</summary>
    /// <returns>False if it was not queued.</returns>
    internal bool Publish(in BusMessage message)
    {
        ReadOnlySpan<byte> envelope = message.Envelope.Span;
        int most = protocol.MostBefore(message.Subject) + envelope.Length + s_lineEnd.Length;
        if (most > MostReservedBytes) return PublishLarge(message);
        Span<byte> room = Reserve(most);
        if (room.IsEmpty) return false;
        int length = protocol.WriteBefore(room, message.Subject, envelope.Length);
        envelope.CopyTo(room[length..]);
        length += envelope.Length;
        s_lineEnd.CopyTo(room[length..]);
        Commit(length + s_lineEnd.Length);
        return true;
    }

    private bool PublishLarge(in BusMessage message)
    {
        byte[] before = new byte[protocol.MostBefore(message.Subject)];
        int length = protocol.WriteBefore(before, message.Subject, message.Envelope.Length);
        return Send(Outgoing.Pieces([before.AsMemory(0, length), message.Envelope, s_lineEnd])) == SendResult.Queued;
    }

    /// <summary>
    /// Queues a subscription or its end. The queue has so much room that a full queue is treated as an error.
    /// </summary>
    internal void Command(ReadOnlySpan<byte> command)
    {
        if (Send(command) == SendResult.Full) Fail("it takes none of what is subscribed");
    }

    /// <summary>Queues a request.</summary>
    /// <returns>False if there is no room.</returns>
    internal bool TryCommand(ReadOnlySpan<byte> command) => IsOpen && Send(command) == SendResult.Queued;

    internal void Report(string refused) =>
        ReportException(new NetworkException(new NetworkError(0, ErrorCategory.Option, refused)), protocol.Server);

    /// <summary>Ends the greeting and opens the connection for messages.</summary>
    internal void Open()
    {
        IsOpen = true;
        _greeting?.Cancel();
        // The receive timeout does not run while bytes are unsent: a broker that reads nothing is detected by the send
        // timeout.
        ReceiveTimeout = SendTimeout = link.Settings.PingInterval * 3;
        _pings = StartTimer(link.Settings.PingInterval, link.Settings.PingInterval);
        link.Opened(this);
    }

    /// <summary>Skips the next bytes.</summary>
    internal void PassOver(int bytes) => _passOver = bytes;

    /// <summary>Sets the number of bytes that must be available before the next call of the protocol.</summary>
    internal void Need(int bytes) => SetMinimumBytes(bytes);

    /// <summary>Starts TLS.</summary>
    internal void Encrypt(TlsOptions tls) => UpgradeToTls(tls);

    internal void Fail(string why)
    {
        if (IsOver) return;
        (IsOpen, IsOver) = (false, true);
        _wrong = why;
        Abort();
    }

    /// <summary>Ends the connection as <see cref="Fail"/> does, for an answer that violates the protocol.</summary>
    internal void Broken(string why)
    {
        ReportProtocolError(new InvalidDataException(why));
        Fail(why);
    }

    /// <summary>Returns a text of the broker in printable form.</summary>
    internal static string Shown(ReadOnlySpan<byte> text)
    {
        StringBuilder shown = new();
        foreach (byte b in text.Length > MostShownLength ? text[..MostShownLength] : text)
            shown.Append(b is >= 32 and < 127 ? (char)b : '.');
        return shown.ToString();
    }

    /// <inheritdoc/>
    protected override void OnConnecting() => link.Connecting();

    /// <inheritdoc/>
    protected override void OnConnected()
    {
        SendLimitBytes = BrokerLink.SendLimitBytes;
        LowWaterMarkBytes = BrokerLink.PublishLimitBytes / 2;
        _greeting = StartTimer(link.Settings.ConnectTimeout);
        protocol.Connected(this);
    }

    /// <inheritdoc/>
    protected override void OnTlsHandshakeCompleted(TlsInfo info)
    {
        if (!IsOver) protocol.Handshaked();
    }

    /// <inheritdoc/>
    protected override int OnData(ReadOnlySpan<byte> unread)
    {
        int taken = 0;
        while (taken < unread.Length && !IsOver && !protocol.IsHeld)
        {
            int count = _passOver > 0 ? (int)Math.Min(_passOver, unread.Length - taken) : 0;
            if (count > 0) _passOver -= count;
            else if ((count = protocol.Hear(unread[taken..])) == 0) break;
            taken += count;
        }

        return IsOver ? unread.Length : taken;
    }

    /// <inheritdoc/>
    protected override void OnTimer(LoopTimer timer)
    {
        if (ReferenceEquals(timer, _pings)) Send(protocol.Ping);
        else if (!IsOpen)
            Fail(string.Create(CultureInfo.InvariantCulture, $"it accepts connections, but did not {protocol.Greets} "
                + $"within {link.Settings.ConnectTimeout.TotalSeconds:0.###} s"));
    }

    /// <inheritdoc/>
    protected override void OnTimeout(CloseReason reason) =>
        Fail(string.Create(CultureInfo.InvariantCulture,
            $"it {(reason.Cause == CloseCause.SendTimeout ? "took" : "sent")} nothing for "
            + $"{link.Settings.PingInterval.TotalSeconds * 3:0.#} s"));

    /// <inheritdoc/>
    protected override void OnDrained()
    {
        if (IsOpen) link.Listener?.OnRoom();
    }

    /// <inheritdoc/>
    protected override void OnDisconnecting(CloseReason reason) =>
        link.Ending(this, _wrong ?? protocol.GuessEnd(reason));
}
