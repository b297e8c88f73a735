using Whimbrel.Compat.Tests.Datagrams;

namespace Whimbrel.Compat.Tests.Connections;

// The core of what the other classes test on one engine, on each engine.
public sealed class EngineTests
{
    private static readonly (string Name, Action Run)[] s_tests =
    [
        ("TCP: order", static () => new TcpTests().Events_come_in_their_order()),
        ("TCP: failed connect", static () => new TcpTests().A_failed_connect_is_reported_without_OnConnected()),
        ("TCP: OnConnected",
            static () => new TcpTests().Data_sent_in_OnConnected_is_sent_and_in_OnDisconnected_is_not()),
        ("TCP: receive", static () => new TcpTests().A_connect_that_waits_leaves_the_bytes_to_Receive()),
        ("TCP: multicast",
            static () => new TcpTests().Multicast_reaches_all_from_any_thread_and_DisconnectAll_ends_all()),
        ("TCP: restart", static () => new TcpTests().A_restart_keeps_the_port_also_with_sessions_open()),
        ("TCP: empty", static () => new TcpTests().OnSent_and_OnEmpty_are_called_for_a_class_that_overrides_them()),
        ("TCP: much", static () => new TcpTests().Large_data_is_sent_whole_by_a_blocking_send()),
        ("TCP: sockets", static () => new TcpTests().The_sockets_of_the_user_are_used_and_Socket_is_alive()),
        ("TLS: order",
            static () => new SslTests().Events_come_in_their_order(System.Security.Authentication.SslProtocols.Tls13)),
        ("TLS: foreign", static () => new SslTests().A_foreign_certificate_is_refused_and_reported()),
        ("TLS: empty", static () => new SslTests().A_session_that_overrides_OnEmpty_gets_all_other_callbacks_as_well()),
        ("UDP: order", static () => new UdpTests().Events_come_in_their_order_and_a_restart_keeps_the_port()),
        ("UDP: echo", static () => new UdpTests().A_server_that_rearms_echoes_one_by_one()),
        ("UDP: many", static () => new UdpTests().Many_concurrent_sends_are_all_sent_each_as_a_separate_datagram()),
    ];

    public static TheoryData<EngineKind, string> Cases()
    {
        TheoryData<EngineKind, string> cases = [];
        foreach (EngineKind kind in (EngineKind[])[EngineKind.Epoll, EngineKind.Uring])
        {
            foreach ((string name, _) in s_tests) cases.Add(kind, name);
        }

        return cases;
    }

    [Theory]
    [MemberData(nameof(Cases))]
    public async Task The_old_classes_are_the_same_on_each_engine(EngineKind kind, string name)
    {
        await using Engine engine = new(new EngineOptions { Kind = kind, Loops = 1 });
        try
        {
            await engine.StartAsync();
        }
        catch (NetworkException e)
        {
            Assert.Skip($"{kind} does not run here: {e.Message}");
        }

        CompatOptions.Engine = engine;
        try
        {
            s_tests.Single(t => t.Name == name).Run();
        }
        finally
        {
            CompatOptions.Engine = null;
        }
    }
}
