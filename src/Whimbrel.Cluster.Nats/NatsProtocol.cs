using System.Text;

namespace Whimbrel.Clusters;

/// <summary>
/// Protocol of one connection: greeting, TLS, CONNECT, then messages. <see cref="NatsLines"/> writes and
/// <see cref="NatsReader"/> reads.
/// </summary>
internal sealed class NatsProtocol(NatsBus bus) : IBrokerProtocol
{
    private BrokerSession _session = null!;
    private Stage _stage;

    private enum Stage
    {
        Greeting,
        Handshake,
        Login,
    }

    /// <summary>The server's last INFO.</summary>
    internal NatsInfo? Info { get; private set; }

    public string Server => "The NATS server";

    public string Greets => "greet";

    public byte[] Ping => NatsLines.Ping;

    public bool IsHeld => _stage == Stage.Handshake;

    public int MostBefore(string subject) => NatsLines.MostAroundSubject + subject.Length;

    public int WriteBefore(Span<byte> target, string subject, int envelope) =>
        NatsLines.WritePublish(target, subject, envelope);

    public void Connected(BrokerSession session) => _session = session;

    public void Handshaked() => LogIn();

    public string? GuessEnd(CloseReason reason) => null;

    public int Hear(ReadOnlySpan<byte> unread)
    {
        NatsItem item = NatsReader.Read(unread, NatsBus.MostEnvelopeBytes);
        if (item.Kind == NatsItemKind.Incomplete) _session.Need(item.More);
        else Take(item);
        return item.Length;
    }

    private void Take(in NatsItem item)
    {
        switch (item.Kind)
        {
            case NatsItemKind.Message when _session.IsOpen: bus.Received(item); break;
            case NatsItemKind.TooLarge when _session.IsOpen: _session.PassOver(item.More); break;
            case NatsItemKind.Info: Greet(item.Body); break;
            case NatsItemKind.Ping: _session.Send("PONG\r\n"u8); break;
            case NatsItemKind.Pong: if (_stage == Stage.Login && !_session.IsOpen) _session.Open(); break;
            case NatsItemKind.Ok: break;
            case NatsItemKind.Error: HearError(Encoding.UTF8.GetString(item.Body)); break;
            case NatsItemKind.Malformed:
                _session.Broken($"what answers there speaks no NATS: '{BrokerSession.Shown(item.Body)}'"); break;
            default: _session.Broken("it sent a message before it was asked for any"); break;
        }
    }

    private void Greet(ReadOnlySpan<byte> json)
    {
        if (!NatsInfo.TryRead(json, out NatsInfo? info))
        {
            _session.Broken("its INFO cannot be read");
            return;
        }

        Info = info;
        if (_stage != Stage.Greeting) return;
        bool wantsTls = bus.WantsTls;
        if (wantsTls && !info.NeedsTls && !info.OffersTls)
        {
            _session.Fail("it offers no TLS, which NatsOptions.Tls or the address asks for. No password was sent");
        }
        else if (wantsTls || info.NeedsTls)
        {
            _stage = Stage.Handshake;
            _session.Encrypt(bus.Tls);
        }
        else
        {
            LogIn();
        }
    }

    private void LogIn()
    {
        _stage = Stage.Login;
        _session.Send(bus.ConnectLine);
    }

    /// <summary>Handles an -ERR. After most of them the server ends the connection.</summary>
    private void HearError(string error)
    {
        if (_session.IsOpen && error.StartsWith("Permissions Violation", StringComparison.OrdinalIgnoreCase))
        {
            bus.Link.Refused($"{error}. See the permissions of this user.");
            return;
        }

        bool isLogin = error.StartsWith("Authorization", StringComparison.OrdinalIgnoreCase)
            || error.StartsWith("Authentication", StringComparison.OrdinalIgnoreCase);
        if (!isLogin) _session.Fail($"it said '{error}'");
        else if (!bus.HasLogin)
            _session.Fail($"it requires authentication ('{error}'): give User and Password, or Token, in NatsOptions "
                + $"or in the address{Nkeys}");
        else _session.Fail($"it does not take these credentials ('{error}'): see User and Password, or Token, in "
            + $"NatsOptions and in the address{Nkeys}");
    }

    // .NET has no Ed25519, and this library contains no cryptography of its own.
    private string Nkeys => Info is { HasNonce: true } ? ". It may ask for an nkey, which this bus does not have" : "";
}
