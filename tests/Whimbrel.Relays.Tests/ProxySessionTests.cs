using System.Buffers;
using System.Net;
using System.Text;
using Whimbrel.Testing;

namespace Whimbrel.Relays.Tests;

// The session that reads the header: which peers it trusts, what it passes to the next session, and what ends it. On
// the memory engine.
public sealed class ProxySessionTests
{
    private const string Line = "PROXY TCP4 192.0.2.7 203.0.113.1 56324 443\r\n";

    private readonly List<ProxyFault> _refused = [];
    private readonly List<Echo> _made = [];

    // Sends the client's address as it sees it, then echoes.
    private sealed class Echo(ProxyHeader? header) : Session
    {
        internal ProxyHeader? Header => header;

        protected override void OnConnected() => Send(Encoding.UTF8.GetBytes($"{RemoteEndPoint} at {LocalEndPoint}\n"));

        protected override void OnReceived(ReadOnlySpan<byte> data) => Send(data);
    }

    private ProxyOptions Options(bool isTrusted = true, bool servesUntrusted = false) => new()
    {
        Trusted = isTrusted ? TrustedNetworks.Everybody : TrustedNetworks.Parse("192.0.2.0/24"),
        ServesUntrusted = servesUntrusted,
        OnRefused = (_, fault) => _refused.Add(fault),
    };

    private TestPeer Connect(ProxyOptions options) => TestPeer.Connect(() => new ProxySession(options, header =>
    {
        _made.Add(new Echo(header));
        return _made[^1];
    }));

    private static byte[] Binary(string source = "192.0.2.7:56324", string destination = "203.0.113.1:443")
    {
        ArrayBufferWriter<byte> written = new();
        new ProxyHeader(IPEndPoint.Parse(source), IPEndPoint.Parse(destination)).Write(written, hasChecksum: true);
        return written.WrittenSpan.ToArray();
    }

    [Theory]
    [InlineData(false, false)]
    [InlineData(false, true)]
    [InlineData(true, false)]
    [InlineData(true, true)]
    public void The_session_after_the_header_has_the_clients_address_and_every_byte(bool isBinary, bool splitEveryByte)
    {
        ProxyOptions options = Options();
        using TestPeer peer = Connect(options);
        peer.SplitEveryByte = splitEveryByte;
        peer.Send([.. isBinary ? Binary() : Encoding.ASCII.GetBytes(Line), .. "hello"u8]);
        Assert.Equal("192.0.2.7:56324 at 203.0.113.1:443\nhello", peer.ReceiveText());
        peer.Send("PROXY again\r\n");
        Assert.Equal("PROXY again\r\n", peer.ReceiveText());
        Assert.Equal(isBinary ? 2 : 1, _made.Single().Header!.Version);
        Assert.Equal(new ProxyCounters(1, 0, 0, 0), options.ReadCounters());
        Assert.Empty(_refused);
    }

    [Fact]
    public void Without_an_address_the_connections_own_stays()
    {
        ProxyOptions options = Options();
        using TestPeer unknown = Connect(options);
        string own = $"{unknown.Session.RemoteEndPoint} at {unknown.Session.LocalEndPoint}\n";
        unknown.Send("PROXY UNKNOWN\r\n");
        Assert.Equal(own, unknown.ReceiveText());
        using TestPeer check = Connect(options);
        ArrayBufferWriter<byte> local = new();
        ProxyHeader.Local.Write(local);
        check.Send(local.WrittenSpan);
        Assert.Equal(own.Length, check.ReceiveText().Length);
        Assert.Equal([false, true], _made.Select(static m => m.Header!.IsLocal));
        Assert.Equal(new ProxyCounters(1, 1, 0, 0), options.ReadCounters());
    }

    [Fact]
    public void A_peer_that_is_not_trusted_is_reset_before_it_says_anything()
    {
        ProxyOptions options = Options(isTrusted: false);
        using TestPeer peer = Connect(options);
        Assert.True(peer.IsReset);
        Assert.Equal([ProxyFault.Untrusted], _refused);
        Assert.Empty(_made);
        Assert.Equal(CloseCause.LocalAbort, peer.CloseReason!.Value.Cause);
        Assert.Equal(new ProxyCounters(0, 0, 0, 1), options.ReadCounters());
    }

    [Fact]
    public void A_peer_that_is_not_trusted_can_be_served_and_its_header_is_only_bytes()
    {
        ProxyOptions options = Options(isTrusted: false, servesUntrusted: true);
        using TestPeer peer = Connect(options);
        string own = $"{peer.Session.RemoteEndPoint} at {peer.Session.LocalEndPoint}\n";
        peer.Send(Line);
        Assert.Equal(own + Line, peer.ReceiveText());
        Assert.Null(_made.Single().Header);
        Assert.Equal(new ProxyCounters(0, 0, 1, 0), options.ReadCounters());
    }

    [Theory]
    [InlineData("GET / HTTP/1.1\r\n\r\n", ProxyFault.NotAHeader)]
    [InlineData("PROXY TCP4 192.0.2.7 203.0.113.1 56324 70000\r\n", ProxyFault.Port)]
    [InlineData("PROXY TCP4 192.0.2.7\n", ProxyFault.LineEnd)]
    [InlineData("PROXY UNKNOWN "
        + "4567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890",
        ProxyFault.TooLong)]
    public void A_peer_that_breaks_a_rule_is_reset_and_the_rule_is_named(string sent, ProxyFault fault)
    {
        using TestPeer peer = Connect(Options());
        peer.Send(sent);
        Assert.True(peer.IsReset);
        Assert.Equal([fault], _refused);
        Assert.Empty(_made);
        Assert.Equal(CloseCause.ProtocolError, peer.CloseReason!.Value.Cause);
        Assert.Contains($"ProxyFault.{fault}", peer.CloseReason.Value.ToString(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(false, "ServesUntrusted")]
    [InlineData(true, "ProxyFault.NotAHeader")]
    public void Without_OnRefused_one_diagnostic_event_a_minute_says_why(bool isTrusted, string expected)
    {
        List<DiagnosticEvent> notices = [];
        using TestNetwork network = new();
        ProxyOptions options = new() { Trusted = Options(isTrusted).Trusted };
        ServerOptions listen =
            new() { Engine = network.Engine, EndPoint = network.NewEndPoint(), OnDiagnosticEvent = notices.Add };
        Server server = new(listen, () => new ProxySession(options, static _ => throw new InvalidOperationException()));
        for (int i = 0; i < 3; i++)
        {
            TestPeer peer = network.Connect(server);
            if (isTrusted) peer.Send("GET / HTTP/1.1\r\n\r\n");
            Assert.True(peer.IsReset);
        }

        DiagnosticEvent notice = Assert.Single(notices);
        Assert.Equal((DiagnosticEventKind.Protocol, "protocol-mismatch.md"), (notice.Kind, notice.Page));
        Assert.Contains(expected, notice.Message, StringComparison.Ordinal);
        Assert.Equal(3, options.ReadCounters().Refused);
    }

    [Fact]
    public void Networks_that_are_null_are_refused_at_once() =>
        Assert.Throws<ArgumentNullException>(static () => new ProxyOptions { Trusted = null! });

    [Fact]
    public void The_header_has_its_time_however_it_trickles()
    {
        using TestPeer peer = Connect(Options());
        for (int i = 0; i < 4; i++)
        {
            peer.Send(Line[i..(i + 1)]);
            peer.Advance(TimeSpan.FromSeconds(1));
        }

        peer.Advance(TimeSpan.FromSeconds(0.9));
        Assert.True(peer.IsConnected);
        peer.Advance(TimeSpan.FromSeconds(0.2));
        Assert.True(peer.IsReset);
        Assert.Equal([ProxyFault.TimedOut], _refused);
    }

    [Fact]
    public void The_timeout_of_the_header_does_not_apply_to_the_data_after_it()
    {
        using TestPeer peer = Connect(Options());
        peer.Send(Line);
        peer.Advance(TimeSpan.FromMinutes(10));
        Assert.True(peer.IsConnected);
    }

    [Theory]
    [InlineData("")]
    [InlineData("PROXY TCP4 192.0.2.7 203.0.113.1 56324 443\r")]
    public void A_peer_that_ends_in_its_header_is_reported_as_truncated(string sent)
    {
        using TestPeer peer = Connect(Options());
        peer.Send(sent);
        peer.Finish();
        Assert.True(peer.IsReset);
        Assert.Equal([ProxyFault.CutOff], _refused);
    }

    [Fact]
    public void An_exception_of_the_users_code_ends_its_connection_only()
    {
        using TestNetwork network = new() { RethrowsExceptions = false };
        ProxyOptions throws = new()
        {
            Trusted = TrustedNetworks.Parse("192.0.2.0/24"),
            OnRefused = static (_, _) => throw new FormatException("refused")
        };
        TestPeer refused =
            network.Connect(() => new ProxySession(throws, static _ => throw new FormatException("never")));
        Assert.True(refused.IsReset);
        TestPeer peer =
            network.Connect(() => new ProxySession(Options(), static _ => throw new FormatException("next")));
        TestPeer other = network.Connect(() => new ProxySession(Options(), static h => new Echo(h)));
        peer.Send(Line);
        Assert.Equal(CloseCause.UserException, peer.CloseReason!.Value.Cause);
        other.Send(Line);
        Assert.Equal("192.0.2.7:56324 at 203.0.113.1:443\n", other.ReceiveText());
        Assert.Equal(["refused", "next"], network.Exceptions.Select(static e => e.Message));
    }

    [Theory]
    [InlineData("10.0.0.0/8", "10.255.255.255:1", true)]
    [InlineData("10.0.0.0/8", "11.0.0.0:1", false)]
    [InlineData("10.0.0.0/8", "[::ffff:10.1.2.3]:1", true)]
    [InlineData("::ffff:10.0.0.0/104", "10.1.2.3:1", true)]
    [InlineData("10.0.0.0/8", "[::10.1.2.3]:1", false)]
    [InlineData("127.0.0.1", "127.0.0.1:1", true)]
    [InlineData("127.0.0.1", "127.0.0.2:1", false)]
    [InlineData("fd00::/8", "[fdff::1]:1", true)]
    [InlineData("0.0.0.0/0", "[::1]:1", false)]
    [InlineData("unix", "127.0.0.1:1", false)]
    public void A_network_contains_its_own(string network, string peer, bool contains) =>
        Assert.Equal(contains, TrustedNetworks.Parse(network).Contains(IPEndPoint.Parse(peer)));

    [Fact]
    public void Peers_without_an_IP_address_are_trusted_by_an_option_of_their_own()
    {
        System.Net.Sockets.UnixDomainSocketEndPoint unix = new("/run/proxy");
        Assert.True(TrustedNetworks.Parse("10.0.0.0/8", "unix").Contains(unix));
        Assert.False(TrustedNetworks.Parse("0.0.0.0/0", "::/0").Contains(unix));
        Assert.False(TrustedNetworks.Parse("0.0.0.0/0", "unix").Contains(null));
        Assert.True(TrustedNetworks.Everybody.Contains(null));
    }

    [Fact]
    public void All_mistakes_of_a_list_are_named_at_once()
    {
        ArgumentException said = Assert.Throws<ArgumentException>(
            static () => TrustedNetworks.Parse("10.0.0.0/8", "10.0.0.0/33", "example.com", ""));
        Assert.Equal(["'10.0.0.0/33'", "'example.com'", "''"], ((string[])["'10.0.0.0/33'", "'example.com'", "''"])
            .Where(w => said.Message.Contains($"{w} is no network", StringComparison.Ordinal)));
        Assert.Throws<ArgumentException>(static () => TrustedNetworks.Parse());
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => new ProxyOptions { Trusted = TrustedNetworks.Everybody, HeaderLimitBytes = 15 });
        Assert.Throws<ArgumentOutOfRangeException>(
            static () => new ProxyOptions { Trusted = TrustedNetworks.Everybody, HeaderTimeout = TimeSpan.Zero });
    }
}
