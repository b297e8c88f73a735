using System.Collections;
using System.Reflection;
using Whimbrel.Connections;
using Whimbrel.Engines;
using Whimbrel.Testing;

namespace Whimbrel.Tests;

// Connection objects are reused. The next tenant must find the object as a new one would be: every field, including
// fields added later. The previous tenant leaves the fields that its life changed, and in its last callback every field
// of a simple type is changed as well.
public sealed class RecycledConnectionTests
{
    private static readonly MemoryEndPoint s_here = new("here");

    private static readonly Dictionary<string, string> s_mayDiffer = new()
    {
        ["Session"] = "the tenant itself",
        ["_word"] = "the word of other threads: has the generation",
        ["RoomOwedTo"] = "the mailbox's: names a tenant by its generation, and is none of the next",
        ["Generation"] = "counts the tenants",
        ["SlotGeneration"] = "counts the residents of the slot",
        ["_inboxGeneration"] = "the generation",
        ["_moves"] = "counts, and only odd or even matters",
        ["_isDirty"] = "it may still be on the dirty list, for the next tenant",
    };

    // Not changed by force: the loop and the queue must agree on these fields, which are correct before the last
    // callback.
    private static readonly Dictionary<string, string> s_inOrderBefore = new()
    {
        ["RoomOwedTo"] = "the mailbox's: names a tenant by its generation, and is none of the next",
        ["Generation"] = "counts the tenants",
        ["Slot"] = "the engine has freed it",
        ["SlotGeneration"] = "counts the residents of the slot",
        ["IsScheduled"] = "says whether it stands in the loop's queue",
        ["HostMemberIndex"] = "it has left the group of all",
        ["_isDirty"] = "says whether it stands in the dirty list",
        ["_moves"] = "its parity belongs to _moveDepth",
        ["_moveDepth"] = "no bytes are between two counts",
        ["_room"] = "the fill is closed",
        ["_granted"] = "the fill is closed",
        ["_counted"] = "the queue was discarded",
        ["_inFiles"] = "the queue was discarded",
        ["_word"] = "the state word of other threads: each pending item removes itself when it is processed",
        ["_operationCount"] = "each operation takes itself out, also in the time of a later tenant",
        ["State"] = "closed: the one step that is left makes it free",
        ["_isReceiving"] = "the engine was stopped",
    };

    private static readonly Type[] s_parts = [typeof(Life), typeof(SessionDriver),
        typeof(SendCallbacks), typeof(ReceivedBytes), typeof(HeldTime), typeof(ConnectionDeadline),
        typeof(OutboundQueue), typeof(SendQueue), typeof(ForeignWord), typeof(Whimbrel.Buffers.BlockQueue),
        typeof(SessionTimers), typeof(Fifo<SendOperation>), typeof(Fifo<SentMark>), typeof(Fifo<PacedSend>)];

    public static TheoryData<string> Lives => [.. s_lives.Keys];

    private static readonly Dictionary<string, Action<Tenant, MemoryPeer>> s_lives = new()
    {
        ["nothing happened"] = static (_, peer) => peer.Close(),
        ["the peer reset it"] = static (_, peer) => peer.Reset(),
        ["the peer finished while it was paused"] = static (tenant, peer) =>
        {
            tenant.PauseReceiving();
            peer.Write([1, 2, 3]);
            peer.ShutdownSend();
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
            tenant.ShutdownSend();
            peer.ShutdownSend();
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
        ServerOptions options = new() { Engine = engine, EndPoint = s_here, Limits = new() { SendBytes = 4096 } };
        Server server = new(options, tenants.Dequeue);
        engine.Run(server.StartAsync());

        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        Connection connection = first.Connection!;
        first.Loop.Post(() => s_lives[life](first, peer));
        engine.RunUntilIdle();
        if (!first.HasEnded) peer.Reset();
        // No time passes, so that a deadline of the previous tenant would show.
        engine.RunUntilIdle();
        Assert.True(first.HasEnded);

        engine.Connect(s_here);
        engine.RunUntilIdle();
        Assert.Same(connection, second.Connection);
        Same(first.AtConnecting, second.AtConnecting);
        Same(first.AtConnected, second.AtConnected);
        engine.Run(engine.DisposeAsync());
    }

    [Fact]
    public void A_late_item_of_one_tenant_does_not_reach_the_next()
    {
        Queue<Tenant> tenants = new([new Tenant(), new Tenant()]);
        Tenant first = tenants.First();
        Tenant second = tenants.Last();
        MemoryEngine engine = new(1, faults: MemoryFaults.None);
        Server server = new(
            new ServerOptions { Engine = engine, EndPoint = s_here, Limits = new() { SendBytes = 4096 } },
            tenants.Dequeue);
        engine.Run(server.StartAsync());
        MemoryPeer peer = engine.Connect(s_here);
        engine.RunUntilIdle();
        Connection connection = first.Connection!;
        uint late = connection.Generation;
        peer.Reset();
        engine.RunUntilIdle();
        MemoryPeer other = engine.Connect(s_here);
        engine.RunUntilIdle();
        Assert.Same(connection, second.Connection);

        GroupShard friends = second.Friends.ShardOf(second.Loop);
        SendOperation operation = SendOperation.Take(second.Loop);
        ValueTask<SendResult> sending = operation.Task;
        second.Loop.Post(() =>
        {
            second.Friends.Join(second);
            Assert.Equal(SendResult.Closed, second.Loop.Mailbox.PostSend(connection, late, "late"u8, default));
            Assert.Equal(SendResult.Closed, second.Loop.Mailbox.PostSend(connection, late, new byte[3000], default));
            connection.Outbound.GiveBackForeign(100, late);
            operation.Begin(connection, late, "late"u8.ToArray(), default, default, default, 4, mayBeTakenBack: false);
            connection.Outbound.OperationBegins(); // as each operation does at its start, for the current tenant
            connection.Outbound.DrainOperation(late, operation);
            connection.Outbound.DrainShutdownSend(late);
            connection.Outbound.DrainClose(late, null);
            friends.DrainLeave(connection, late);
            connection.Release(ReceiveGate.Mailbox, late);
        });
        connection.Outbound.AbortForeign(new CloseReason(CloseCause.LocalAbort), late);
        engine.RunUntilIdle();
        Assert.Equal(SendResult.Closed, engine.Run(sending));
        Assert.Equal((0, 0), (other.Available, second.BytesPending));
        Assert.Equal(1, second.Friends.Count);

        // A join is counted by the caller, and the count is taken back where it turns out to be too late.
        SessionGroup others = new("others");
        others.Join(second);
        engine.RunUntilIdle();
        second.Loop.Post(() => others.ShardOf(second.Loop).DrainLeave(connection, connection.Generation));
        engine.RunUntilIdle();
        second.Loop.Post(() => others.ShardOf(second.Loop).DrainJoin(connection, late, 0));
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
        string[] names = [.. Fields().Select(static f => f.Name)];
        Assert.All(s_mayDiffer.Keys.Concat(s_inOrderBefore.Keys), name => Assert.Contains(name, names));
    }

    private static void Same(Dictionary<string, string> fresh, Dictionary<string, string> recycled) =>
        Assert.Equal(
            fresh.Where(static f => MustAgree(f.Key)).Select(static f => $"{f.Key} = {f.Value}"),
            recycled.Where(static f => MustAgree(f.Key)).Select(static f => $"{f.Key} = {f.Value}"));

    private static bool MustAgree(string path) =>
        !s_mayDiffer.ContainsKey(path[(path.LastIndexOf('.') + 1)..]);

    // ------------------------------------------------------------------ reading fields

    private static IEnumerable<Place> Fields() => FieldsOf(typeof(Connection), []);

    /// <summary>Includes the fields of nested parts.</summary>
    private static IEnumerable<Place> FieldsOf(Type? type, FieldInfo[] way)
    {
        for (; type is not null && type != typeof(object) && type != typeof(ValueType); type = type.BaseType)
        {
            foreach (FieldInfo field in type.GetFields(
                BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic | BindingFlags.DeclaredOnly))
            {
                if (!s_parts.Contains(field.FieldType)) yield return new Place([.. way, field]);
                foreach (Place part in s_parts.Contains(field.FieldType)
                    ? FieldsOf(field.FieldType, [.. way, field])
                    : [])
                    yield return part;
            }
        }
    }

    private static Dictionary<string, string> Look(Connection connection) =>
        Fields().ToDictionary(static f => f.Path, f => Describe(f.Get(connection)));

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
        foreach (Place field in Fields())
        {
            if (field.Last.IsInitOnly || s_inOrderBefore.ContainsKey(field.Name)) continue;
            if (DirtOf(field.Last.FieldType) is { } dirt) field.Set(connection, dirt);
        }
    }

    private static object? DirtOf(Type type)
    {
        if (type == typeof(bool)) return true;
        if (type == typeof(string)) return "dirty";
        if (type == typeof(CloseReason)) return new CloseReason(CloseCause.UnreadLimit);
        if (type.IsEnum) return Enum.ToObject(type, 1);
        return type.IsPrimitive
            ? Convert.ChangeType(77, type, System.Globalization.CultureInfo.InvariantCulture)
            : null;
    }

    /// <summary>A field of the connection, or of a part of it.</summary>
    private sealed record Place(FieldInfo[] Way)
    {
        internal FieldInfo Last => Way[^1];

        /// <summary>Name of the property if the field is its backing field.</summary>
        internal string Name => NameOf(Last);

        /// <summary>The names of the parts that contain it, and its own.</summary>
        internal string Path => string.Join('.', Way.Select(NameOf));

        private static string NameOf(FieldInfo field) =>
            field.Name[0] == '<' ? field.Name[1..field.Name.IndexOf('>', StringComparison.Ordinal)] : field.Name;

        internal object? Get(object? of) => Way.Aggregate(of, static (value, field) => field.GetValue(value));

        internal void Set(object of, object value)
        {
            for (int i = Way.Length - 1; i >= 0; i--)
            {
                object owner = Way[..i].Aggregate(of, static (inner, field) => field.GetValue(inner)!);
                Way[i].SetValue(owner, value);
                value = owner;
            }
        }
    }

    private sealed class Tenant : Session
    {
        internal SessionGroup Friends { get; } = new("friends");

        internal Dictionary<string, string> AtConnecting { get; private set; } = [];

        internal Dictionary<string, string> AtConnected { get; private set; } = [];

        internal bool HasEnded { get; private set; }

        internal void Ask(int count) => SetMinimumBytes(count);

        internal void Room(int count) => Reserve(count);

        internal void SendWhenThereIsRoom(int bytes) => _ = SendAsync(new byte[bytes]).AsTask();

        internal void Gate(BroadcastGate gate) => BroadcastGate = gate;

        internal void GiveTo(Session next) => HandOver(next);

        internal void Every(TimeSpan period) => StartTimer(period, period);

        protected override void OnConnecting() => AtConnecting = Look(Connection!);

        protected override void OnConnected() => AtConnected = Look(Connection!);

        protected override int OnData(ReadOnlySpan<byte> unread) => 0;

        protected override void OnDisconnected(CloseReason reason)
        {
            HasEnded = true;
            MakeDirty(Connection!);
        }
    }
}
