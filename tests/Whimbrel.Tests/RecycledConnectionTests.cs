using System.Collections;
using System.Reflection;
using Whimbrel.Connections;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// The object of a connection serves many. Its next tenant must find it as a new one would be: whatever field it has, also one that is added
// later. The last tenant leaves what its life made dirty, and in its last callback every field of a plain type is made dirty besides.
public sealed class RecycledConnectionTests
{
    private static readonly MemoryEndPoint s_here = new("here");

    private static readonly Dictionary<string, string> s_mayDiffer = new()
    {
        ["_session"] = "the tenant itself",
        ["_foreign"] = "has the generation",
        ["RoomOwedTo"] = "the mailbox's: names a tenant by its generation, and is none of the next",
        ["Generation"] = "counts the tenants",
        ["SlotGeneration"] = "counts the residents of the slot",
        ["_moves"] = "counts, and only odd or even matters",
        ["_dirty"] = "it may still be on the dirty list, for whoever comes next",
        ["_idleChecks"] = "begins anew with each deadline",
        ["_progressAtDeadline"] = "begins anew with each deadline",
    };

    // Not made dirty by force: what the loop and the queue know of them must agree, and they are in order before the last callback comes.
    private static readonly Dictionary<string, string> s_inOrderBefore = new()
    {
        ["RoomOwedTo"] = "the mailbox's: names a tenant by its generation, and is none of the next",
        ["Generation"] = "counts the tenants",
        ["Slot"] = "the engine has freed it",
        ["SlotGeneration"] = "counts the residents of the slot",
        ["IsScheduled"] = "says whether it stands in the loop's queue",
        ["HostMemberIndex"] = "it has left the group of all",
        ["IsSilent"] = "it has left the list of those that said nothing",
        ["_dirty"] = "says whether it stands in the dirty list",
        ["_moves"] = "its parity belongs to _moveDepth",
        ["_moveDepth"] = "no bytes are between two counts",
        ["_room"] = "the fill is closed",
        ["_granted"] = "the fill is closed",
        ["_queued"] = "the queue was discarded",
        ["_operationCount"] = "each operation takes itself out, also in the time of a later tenant",
        ["_isReceiving"] = "the engine was told to stop",
    };

    private static readonly FieldInfo s_operationCount = typeof(Connection).GetField("_operationCount", BindingFlags.Instance | BindingFlags.NonPublic)!;

    public static TheoryData<string> Lives => [.. s_lives.Keys];

    private static readonly Dictionary<string, Action<Tenant, MemoryPeer>> s_lives = new()
    {
        ["nothing happened"] = static (_, peer) => peer.Close(),
        ["the peer reset it"] = static (_, peer) => peer.Reset(),
        ["the peer finished while it was paused"] = static (tenant, peer) =>
        {
            tenant.PauseReceiving();
            peer.Write([1, 2, 3]);
            peer.FinishSending();
            tenant.Abort();
        },
        ["it wanted more bytes than came"] = static (tenant, peer) =>
        {
            tenant.Ask(100);
            peer.Write([1, 2, 3]);
            peer.Reset();
        },
        ["it finished first and the peer followed"] = static (tenant, peer) =>
        {
            tenant.Send("last"u8);
            tenant.FinishSending();
            peer.FinishSending();
        },
        ["it closed, and the peer sent on"] = static (tenant, peer) =>
        {
            tenant.Close();
            peer.Write(new byte[1000]);
            peer.Close();
        },
        ["sends waited for room"] = static (tenant, _) =>
        {
            tenant.Send(new byte[4096].AsSpan());
            tenant.SendWhenThereIsRoom(4096);
            tenant.SendWhenThereIsRoom(100_000);
            tenant.Abort();
        },
        ["a broadcast was held back"] = static (tenant, _) =>
        {
            tenant.Friends.Join(tenant);
            tenant.Gate(BroadcastGate.Held);
            tenant.Friends.Broadcast("kept"u8);
            tenant.Abort();
        },
        ["room was reserved and not written"] = static (tenant, _) =>
        {
            tenant.Room(100);
            tenant.Abort();
        },
        ["it had timers"] = static (tenant, _) =>
        {
            tenant.Every(TimeSpan.FromMilliseconds(1));
            tenant.Every(TimeSpan.FromHours(1));
            tenant.Close();
        },
        ["it was handed over in vain"] = static (tenant, _) =>
        {
            tenant.GiveTo(new Recorder());
            tenant.Abort();
        },
        ["its callback threw"] = static (_, _) => throw new FormatException("odd"),
    };

    [Theory]
    [MemberData(nameof(Lives))]
    public void The_next_tenant_finds_every_field_as_a_new_connection_has_it(string life)
    {
        Queue<Tenant> tenants = new([new Tenant(), new Tenant()]);
        Tenant first = tenants.First();
        Tenant second = tenants.Last();
        MemoryEngine engine = new(1, faults: MemoryFaults.None with { WireBytes = 1024 });
        ServerOptions options = new() { Engine = engine, EndPoint = s_here, SendLimitBytes = 4096 };
        Server server = new(options, tenants.Dequeue);
        engine.Run(server.StartAsync());

        MemoryPeer peer = engine.Dial(s_here);
        engine.RunUntilIdle();
        Connection connection = first.Connection!;
        first.Loop.Post(() => s_lives[life](first, peer));
        engine.RunUntilIdle();
        if (!first.HasEnded) peer.Reset();
        // No time passes: a deadline of the last tenant would show.
        engine.RunUntilIdle();
        Assert.True(first.HasEnded);

        engine.Dial(s_here);
        engine.RunUntilIdle();
        Assert.Same(connection, second.Connection);
        Same(first.AtConnecting, second.AtConnecting);
        Same(first.AtConnected, second.AtConnected);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void What_comes_too_late_for_one_tenant_does_not_reach_the_next()
    {
        Queue<Tenant> tenants = new([new Tenant(), new Tenant()]);
        Tenant first = tenants.First();
        Tenant second = tenants.Last();
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Server server = new(new ServerOptions { Engine = engine, EndPoint = s_here, SendLimitBytes = 4096 }, tenants.Dequeue);
        engine.Run(server.StartAsync());
        MemoryPeer peer = engine.Dial(s_here);
        engine.RunUntilIdle();
        Connection connection = first.Connection!;
        uint late = connection.Generation;
        peer.Reset();
        engine.RunUntilIdle();
        MemoryPeer other = engine.Dial(s_here);
        engine.RunUntilIdle();
        Assert.Same(connection, second.Connection);

        GroupShard friends = second.Friends.ShardOf(second.Loop);
        SendOperation operation = SendOperation.Take(second.Loop);
        ValueTask<SendResult> sending = operation.Task;
        second.Loop.Post(() =>
        {
            second.Friends.Join(second);
            connection.DrainSend(late, "late"u8);
            connection.GiveBackForeign(100, late);
            operation.Begin(connection, late, "late"u8.ToArray(), default, default, 4);
            s_operationCount.SetValue(connection, 1); // as whoever begins one does, whatever tenant there is by then
            connection.DrainOperation(late, operation);
            connection.DrainFinishSending(late);
            connection.DrainClose(late, null);
            friends.DrainLeave(connection, late);
            connection.ReleaseMailboxHold(late);
        });
        connection.AbortForeign(new CloseReason(CloseCause.LocalAbort), late);
        engine.RunUntilIdle();
        Assert.Equal(SendResult.Closed, engine.Run(sending));
        Assert.Equal((0, 0), (other.Available, second.BytesPending));
        Assert.Equal(1, second.Friends.Count);

        // A join is counted by who asks for it, and given back by who finds that it came too late.
        SessionGroup others = new("others");
        others.Join(second);
        engine.RunUntilIdle();
        second.Loop.Post(() => others.ShardOf(second.Loop).DrainLeave(connection, connection.Generation));
        engine.RunUntilIdle();
        second.Loop.Post(() => others.ShardOf(second.Loop).DrainJoin(connection, late));
        engine.RunUntilIdle();
        Assert.False(others.ShardOf(second.Loop).Contains(connection));

        Assert.Equal(SendResult.Queued, second.Send("now"u8));
        engine.RunUntilIdle();
        Assert.True(second.IsConnected);
        Assert.Equal(3, other.Available);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void The_fields_that_may_differ_or_are_left_alone_exist()
    {
        string[] names = [.. Fields().Select(NameOf)];
        Assert.All(s_mayDiffer.Keys.Concat(s_inOrderBefore.Keys), name => Assert.Contains(name, names));
    }

    private static void Same(Dictionary<string, string> fresh, Dictionary<string, string> recycled) =>
        Assert.Equal(
            fresh.Where(static f => !s_mayDiffer.ContainsKey(f.Key)).Select(static f => $"{f.Key} = {f.Value}"),
            recycled.Where(static f => !s_mayDiffer.ContainsKey(f.Key)).Select(static f => $"{f.Key} = {f.Value}"));

    // ------------------------------------------------------------------ looking at fields

    private static IEnumerable<FieldInfo> Fields()
    {
        for (Type type = typeof(Connection); type != typeof(object); type = type.BaseType!)
        {
            foreach (FieldInfo field in type.GetFields(BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.DeclaredOnly)) yield return field;
        }
    }

    /// <summary>That of the property, when the field is its own.</summary>
    private static string NameOf(FieldInfo field) => field.Name[0] == '<' ? field.Name[1..field.Name.IndexOf('>', StringComparison.Ordinal)] : field.Name;

    private static Dictionary<string, string> Look(Connection connection) => Fields().ToDictionary(NameOf, field => Describe(field.GetValue(connection)));

    private static string Describe(object? value) => value switch
    {
        null or Pointer or LoopTimer { IsActive: false } or ICollection { Count: 0 } => "nothing",
        UnreadStore unread => $"{unread.Length} bytes",
        RawSocket socket => socket.Equals(default(RawSocket)) ? "no socket" : "a socket",
        ICollection many => $"{many.Count} of them",
        _ => value.ToString()!,
    };

    private static void MakeDirty(Connection connection)
    {
        foreach (FieldInfo field in Fields())
        {
            if (field.IsInitOnly || s_inOrderBefore.ContainsKey(NameOf(field))) continue;
            if (DirtOf(field.FieldType) is { } dirt) field.SetValue(connection, dirt);
        }
    }

    private static object? DirtOf(Type type)
    {
        if (type == typeof(bool)) return true;
        if (type == typeof(string)) return "dirty";
        if (type == typeof(CloseReason)) return new CloseReason(CloseCause.UnreadLimit);
        if (type.IsEnum) return Enum.ToObject(type, 1);
        return type.IsPrimitive ? Convert.ChangeType(77, type, System.Globalization.CultureInfo.InvariantCulture) : null;
    }

    private sealed class Tenant : Session
    {
        internal SessionGroup Friends { get; } = new("friends");

        internal Dictionary<string, string> AtConnecting { get; private set; } = [];

        internal Dictionary<string, string> AtConnected { get; private set; } = [];

        internal bool HasEnded { get; private set; }

        internal void Ask(int count) => NeedBytes(count);

        internal void Room(int count) => Reserve(count);

        internal void SendWhenThereIsRoom(int bytes) => _ = SendAsync(new byte[bytes]).AsTask();

        internal void Gate(BroadcastGate gate) => BroadcastGate = gate;

        internal void GiveTo(Session next) => HandOver(next);

        internal void Every(TimeSpan period) => StartTimer(period, period);

        protected override void OnConnecting() => AtConnecting = Look(Connection!);

        protected override void OnConnected() => AtConnected = Look(Connection!);

        protected override int OnUnread(ReadOnlySpan<byte> unread) => 0;

        protected override void OnDisconnected(CloseReason reason)
        {
            HasEnded = true;
            MakeDirty(Connection!);
        }
    }
}
