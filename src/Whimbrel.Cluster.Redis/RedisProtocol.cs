namespace Whimbrel.Clusters;

/// <summary>
/// Protocol of one connection: HELLO with the login, then messages. <see cref="RedisCommands"/> writes and
/// <see cref="RespReader"/> reads.
/// </summary>
internal sealed class RedisProtocol(RedisBus bus) : IBrokerProtocol
{
    private BrokerSession _session = null!;

    public string Server => "The Redis server";

    public string Greets => "answer";

    public byte[] Ping => RedisCommands.Ping;

    public bool IsHeld => false;

    public int MostBefore(string subject) => RedisCommands.MostAroundPublish + bus.Prefix.Length + subject.Length;

    public int WriteBefore(Span<byte> target, string subject, int envelope) =>
        RedisCommands.WritePublish(target, bus.Prefix, subject, envelope);

    public void Connected(BrokerSession session)
    {
        _session = session;
        session.Send(bus.Hello);
    }

    /// <summary>Does nothing: the connection starts with TLS, so there is no upgrade.</summary>
    public void Handshaked()
    {
    }

    public int Hear(ReadOnlySpan<byte> unread)
    {
        RespItem item = RespReader.Read(unread, RedisBus.MostEnvelopeBytes);
        if (item.Kind == RespKind.Incomplete) _session.Need(item.More);
        else if (item.Kind == RespKind.Malformed)
            _session.Broken($"what answers there speaks no RESP: '{BrokerSession.Shown(item.Body)}'");
        else if (item.Kind == RespKind.TooLarge && _session.IsOpen) _session.PassOver(item.More);
        else if (_session.IsOpen) Take(item);
        else Greet(item);
        return item.Length;
    }

    // The answers to PUBLISH are counts of receivers and are ignored, because a node does not know the expected number.
    private void Take(in RespItem item)
    {
        if (item.Kind == RespKind.Push) bus.Received(item);
        else if (item.Kind == RespKind.Error) TellRefused(BrokerSession.Shown(item.Body));
        else bus.History.Heard(item);
    }

    private void Greet(in RespItem item)
    {
        if (item.Kind == RespKind.Error)
        {
            Refuse(BrokerSession.Shown(item.Body));
        }
        else if (item.Kind != RespKind.Map)
        {
            _session.Broken("its answer to HELLO is none of RESP3");
        }
        else if (IsReplica(item))
        {
            _session.Fail("it is a replica, and messages published there do not reach the other servers. Give the "
                + "address of its primary");
        }
        else
        {
            _session.Open();
        }
    }

    private static bool IsReplica(in RespItem hello)
    {
        ReadOnlySpan<byte> rest = hello.Body;
        while (!rest.IsEmpty)
        {
            bool isRole = RespReader.Next(ref rest).Is("role"u8);
            RespItem value = RespReader.Next(ref rest);
            if (isRole) return value.Is("replica"u8) || value.Is("slave"u8);
        }

        return false;
    }

    /// <summary>Ends the connection after an error. The first word of the error is its code.</summary>
    private void Refuse(string error) => _session.Fail(error.Split(' ', 2)[0] switch
    {
        "WRONGPASS" =>
            $"it does not take these credentials ('{error}'): see User and Password in RedisOptions and in the address",
        "NOAUTH" => "it requires authentication (NOAUTH): give Password, and User where there is one, in RedisOptions "
            + "or in the address",
        "NOPROTO" => "it speaks no RESP3, which Redis has from version 6 on",
        "ERR" when error.StartsWith("ERR unknown command", StringComparison.OrdinalIgnoreCase) =>
            "it speaks no RESP3, which Redis has from version 6 on",
        "DENIED" => $"it is in protected mode and serves its own machine only ('{error}')",
        _ => $"it said '{error}'",
    });

    private void TellRefused(string error) =>
        bus.Link.Refused(!error.StartsWith("NOPERM", StringComparison.Ordinal)
            ? $"{error}."
            : $"{error}. The user needs +@pubsub +ping and its channels (&whimbrel:*); for recoverable groups +eval "
                + "+info +time +del +pexpire +@hash +@stream and their keys (~whimbrel:*) as well.");

    public string? GuessEnd(CloseReason reason) =>
        !_session.IsOpen && bus.Link.Settings.Tls is null
            ? $"it ended the connection before it answered ({reason}). If it wants TLS: rediss:// or RedisOptions.Tls"
            : null;
}
