using System.Net;

namespace Whimbrel.Conformance;

/// <summary>The options of accepting, placing and idle connections: at their limits, and one past them.</summary>
public sealed class ServerOptionsTests
{
    private static readonly IPEndPoint s_any = new(IPAddress.Loopback, 0);

    public static TheoryData<string, ServerOptions> Mistakes => new()
    {
        { "Accept.Limit = -1, allowed 0 to 2147483647",
            new ServerOptions { EndPoint = s_any, Accept = new() { Limit = -1 } } },
        { "Accept.Scheme = 7, allowed Auto, OneListener, ListenerPerLoop",
            new ServerOptions { EndPoint = s_any, Accept = new() { Scheme = (AcceptScheme)7 } } },
        { "Accept.Placement = 7, allowed Auto, RoundRobin, LeastLoaded, AcceptingLoop",
            new ServerOptions { EndPoint = s_any, Accept = new() { Placement = (Placement)7 } } },
        { "Accept.Placement and Accept.ChooseLoop are both given", new ServerOptions
        {
            EndPoint = s_any,
            Accept = new() { Placement = Placement.LeastLoaded, ChooseLoop = static a => a.Loop }
        } },
        { "Timeouts.Idle = 00:00:00.0990000, allowed 00:00:00.1000000 to 7.00:00:00, or zero, the default",
            new ServerOptions { EndPoint = s_any, Timeouts = new() { Idle = TimeSpan.FromMilliseconds(99) } } },
        { "Timeouts.Idle = 7.00:00:00.0010000",
            new ServerOptions
            {
                EndPoint = s_any,
                Timeouts = new() { Idle = TimeSpan.FromDays(7) + TimeSpan.FromMilliseconds(1) }
            } },
        { "Timeouts.Idle = -00:00:01",
            new ServerOptions { EndPoint = s_any, Timeouts = new() { Idle = TimeSpan.FromSeconds(-1) } } },
    };

    [Theory]
    [MemberData(nameof(Mistakes), DisableDiscoveryEnumeration = true)]
    public void A_mistake_is_named_with_the_permitted_values(string expected, ServerOptions options)
    {
        ArgumentNullException.ThrowIfNull(options);
        string message = Assert.Throws<ArgumentException>(() => options.Validate(Engine.Default)).Message;
        Assert.Contains(expected, message, StringComparison.Ordinal);
        Assert.Contains("1 mistake:", message, StringComparison.Ordinal);
    }

    [Fact]
    public void Mistakes_can_be_asked_for_before_a_start()
    {
        Assert.Empty(new ServerOptions { EndPoint = s_any }.FindMistakes());
        Assert.Equal(["Socket.Backlog = 0, allowed 1 to 65535", "Accept.Limit = -1, allowed 0 to 2147483647"],
            new ServerOptions { EndPoint = s_any, Accept = new() { Limit = -1 }, Socket = new() { Backlog = 0 } }
                .FindMistakes());
        Assert.Empty(new EngineOptions().FindMistakes());
        Assert.Equal(["Loops = 257, allowed 0 to 256"], new EngineOptions { Loops = 257 }.FindMistakes());
    }

    [Fact]
    public void The_limits_of_ranges_are_allowed()
    {
        new ServerOptions
        {
            EndPoint = s_any,
            Accept = new() { Limit = 1, Placement = Placement.LeastLoaded },
            Timeouts = new() { Idle = TimeSpan.FromMilliseconds(100) }
        }.Validate(Engine.Default);
        new ServerOptions
        {
            EndPoint = s_any,
            Accept = new() { Limit = int.MaxValue, ChooseLoop = static a => a.Loop },
            Timeouts = new() { Idle = TimeSpan.FromDays(7) }
        }.Validate(Engine.Default);
        new ServerOptions { EndPoint = s_any, Timeouts = new() { Idle = TimeSpan.Zero } }.Validate(Engine.Default);
    }
}
