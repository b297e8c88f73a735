using Whimbrel.Clusters;

namespace Whimbrel.Tests;

public sealed class JoinByAddressTests
{
    private static string Refusal(string address) =>
        Assert.Throws<ArgumentException>(() => GroupBus.Make(address)).Message;

    [Fact]
    public void An_address_is_the_bus_that_was_registered_for_its_scheme_last()
    {
        MemoryBusLink first = new MemoryBus().Connect(), second = new MemoryBus().Connect();
        GroupBus.Register("test-bus", _ => first);
        Assert.Same(first, GroupBus.Make("test-bus://x"));
        string? given = null;
        GroupBus.Register("TEST-BUS", address =>
        {
            given = address;
            return second;
        });
        Assert.Same(second, GroupBus.Make("Test-Bus://u:p@x,y"));
        Assert.Equal("Test-Bus://u:p@x,y", given);
        Assert.Throws<ArgumentException>(() => GroupBus.Register("a:b", _ => first));
    }

    [Fact]
    public void An_unknown_or_missing_scheme_gives_a_cure_without_the_password()
    {
        string unknown = Refusal("nowhere://u:secret@x");
        Assert.Contains("No bus is registered for nowhere://", unknown, StringComparison.Ordinal);
        Assert.Contains("NatsBus.Register()", unknown, StringComparison.Ordinal);
        Assert.Contains("has no scheme", Refusal("u:secret@127.0.0.1:4222"), StringComparison.Ordinal);
        Assert.DoesNotContain("secret", unknown + Refusal("u:secret@127.0.0.1:4222"), StringComparison.Ordinal);
    }

    [Fact]
    public void The_buses_of_the_packages_register_themselves()
    {
        NatsBus.Register();
        RedisBus.Register();
        Assert.Equal("NATS nats://h:4222", Assert.IsType<NatsBus>(GroupBus.Make("nats://u:p@h")).Description);
        Assert.Equal("Redis redis://h:6379", Assert.IsType<RedisBus>(GroupBus.Make("redis://u:p@h")).Description);
        Assert.Equal("Redis rediss://h:1", Assert.IsType<RedisBus>(GroupBus.Make("rediss://:p@h:1")).Description);
    }
}
