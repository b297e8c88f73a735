using System.Globalization;
using System.Net;
using System.Reflection;
using System.Text.RegularExpressions;
using Whimbrel.Clusters;
using Whimbrel.Http;
using Whimbrel.Kestrel;
using Whimbrel.Relays;

namespace Whimbrel.Docs;

// Each numeric and time option of each options class: its default and its minimum and maximum, found by trying, as in
// OptionLimits.txt. A changed range fails here, and so does an option without a range or without a row in
// docs/limits.md.
public sealed class OptionLimitTests : IAsyncDisposable
{
    private const string Accept = "WHIMBREL_ACCEPT_LIMITS";

    // Limited by a setting of Linux.
    private const string OfSystem = "FastOpenQueue";

    // Numbers that are not limits.
    private static readonly string[] s_notInLimits = ["TypeOfService", "SendBufferBytes", "ReceiveBufferBytes",
        "MaxAttempts", "Factor"];

    private readonly Engine _engine = new(new EngineOptions { Loops = 1 });

    public ValueTask DisposeAsync() => _engine.DisposeAsync();

    // A factory with the required options set, and a function that returns the errors; null for classes with setters
    // that throw.
    private Dictionary<Func<object>, Func<object, object?>?> Classes() => new()
    {
        [static () => new EngineOptions { Loops = 1 }] = static o => Call(o, "Judge"),
        [static () => new ServerLimits()] = o => Call(Listening(limits: (ServerLimits)o), "FindMistakes"),
        [static () => new ConnectionTimeouts()] =
            o => Call(Listening(timeouts: (ConnectionTimeouts)o), "FindMistakes"),
        [static () => new ServerSocketOptions { KeepAlive = true }] =
            o => Call(Listening(socket: (ServerSocketOptions)o), "FindMistakes"),
        [static () => new AcceptOptions()] = o => Call(Listening(accept: (AcceptOptions)o), "FindMistakes"),
        [static () => new ConnectionLimits()] =
            o => Call(Connecting(limits: (ConnectionLimits)o), "Validate", _engine),
        [static () => new ClientTimeouts()] = o => Call(Connecting(timeouts: (ClientTimeouts)o), "Validate", _engine),
        [static () => new ClientSocketOptions { KeepAlive = true }] =
            o => Call(Connecting(socket: (ClientSocketOptions)o), "Validate", _engine),
        [static () => new ReconnectPolicy()] = o => Call(Connecting(o), "Validate", _engine),
        [static () => new TlsOptions()] =
            o => Call(new ServerOptions { Engine = _engine, EndPoint = Any, Tls = (TlsOptions)o }, "FindMistakes"),
        [() => new DatagramOptions { Engine = _engine, EndPoint = Any }] =
            o => typeof(DatagramSocket).Assembly.GetType("Whimbrel.Datagrams.DatagramRules")!
                .GetMethod("Validate", BindingFlags.Static | BindingFlags.NonPublic)!.Invoke(null,
                    BindingFlags.DoNotWrapExceptions, null, [o, _engine, false], null),
        [static () => new CallOptions()] = o => new CallClient(Connecting(), null, (CallOptions)o),
        [static () => new ConnectionPipeOptions()] = static o => Call(o, "Check"),
        [static () => new HttpOptions()] = static o => Call(o, "FindMistakes"),
        [static () => new WebSocketOptions()] = static o => Call(o, "Check"),
        [static () => new HttpFileOptions()] = static o => Call(o, "Check"),
        [static () => new HttpClientOptions()] = static o => Call(o, "Check"),
        [static () => new RelayOptions { Targets = ["127.0.0.1:1"] }] = null,
        [static () => new ProxyOptions { Trusted = TrustedNetworks.Parse("127.0.0.1") }] = null,
        [static () => new ClusterOptions { Application = "a" }] = static o => Call(o, "FindMistakes"),
        [static () => new HistoryLimits()] = static o => Call(o, "Check"),
        [static () => new RedisOptions()] = static o => Call(o, "Check"),
        [static () => new NatsOptions()] = static o => Call(o, "Check"),
        [static () => new RabbitMqOptions()] = static o => Call(o, "Check"),
        [static () => new WhimbrelTransportOptions()] = static o => Call(o, "FindMistakes"),
    };

    private static IPEndPoint Any => new(IPAddress.Loopback, 0);

    private static IPEndPoint Peer => new(IPAddress.Loopback, 1);

    private ServerOptions Listening(ServerLimits? limits = null, ConnectionTimeouts? timeouts = null,
        ServerSocketOptions? socket = null, AcceptOptions? accept = null) => new()
    {
        Engine = _engine,
        EndPoint = Any,
        Limits = limits ?? new(),
        Timeouts = timeouts ?? new(),
        Socket = socket ?? new(),
        Accept = accept ?? new(),
    };

    private ClientOptions Connecting(object? reconnect = null, ConnectionLimits? limits = null,
        ClientTimeouts? timeouts = null, ClientSocketOptions? socket = null) => new()
    {
        Engine = _engine,
        EndPoint = Peer,
        Reconnect = (ReconnectPolicy?)reconnect,
        Limits = limits ?? new(),
        Timeouts = timeouts ?? new(),
        Socket = socket ?? new(),
    };

    private static object? Call(object options, string method, params object[] arguments)
    {
        MethodInfo judge = options.GetType().GetMethod(method, BindingFlags.Instance | BindingFlags.Public
            | BindingFlags.NonPublic, [.. arguments.Select(static a => a.GetType())])
            ?? throw new MissingMethodException(options.GetType().Name, method);
        object? told = judge.Invoke(options, BindingFlags.DoNotWrapExceptions, null, arguments, null);
        if (told?.GetType().GetMethod("ThrowIfAny", BindingFlags.Instance | BindingFlags.NonPublic) is { } throws)
            throws.Invoke(told, BindingFlags.DoNotWrapExceptions, null, null, null);
        return told;
    }

    // Whether the options are rejected because of this property; other errors are ignored.
    private static bool IsRefused(Func<object, object?>? tell, object options, string name)
    {
        string told;
        try
        {
            told = tell?.Invoke(options) switch
            {
                string text => text,
                IEnumerable<string> mistakes => string.Join(' ', mistakes),
                _ => "",
            };
        }
        catch (ArgumentException e)
        {
            told = e.Message;
        }

        return Regex.IsMatch(told, $@"\b{name}\b");
    }

    [Fact]
    public void Every_number_of_every_options_class_has_the_range_that_is_written_down()
    {
        string[] found = [.. Classes().SelectMany(static c => RowsOf(c.Key, c.Value)).Order(StringComparer.Ordinal)];
        string file = Path.Combine(Repository.Root, "tests/Whimbrel.Docs/OptionLimits.txt");
        if (Environment.GetEnvironmentVariable(Accept) is not null) File.WriteAllLines(file, found);
        string[] written = File.ReadAllLines(file);
        string[] changed = [.. found.Except(written).Select(static r => $"now: {r}"),
            .. written.Except(found).Select(static r => $"was: {r}")];
        Assert.True(changed.Length == 0, $"{string.Join('\n', changed)}\nIf this is meant, run this test with "
            + $"{Accept}=1, and look at docs/limits.md and at the documentation of the option.");
        Assert.True(found.Length > 100, $"only {found.Length} options were found");
    }

    [Fact]
    public void Every_number_of_every_options_class_is_in_the_page_of_limits()
    {
        string page = File.ReadAllText(Path.Combine(Repository.Root, "docs/limits.md"));
        string[] missing = [.. Classes().Keys.Select(static make => make().GetType())
            .SelectMany(static type => Numbers(type).Select(p => (type, p)))
            .Where(x => !s_notInLimits.Contains(x.p.Name)
                && !page.Contains(NameOnPage(x.type, x.p.Name), StringComparison.Ordinal))
            .Select(static x => $"{x.type.Name}.{x.p.Name}")];
        Assert.True(missing.Length == 0, $"docs/limits.md has no row for {string.Join(", ", missing)}");
    }

    // Members of a group are on the page with its name, as in messages and in the configuration.
    private static string NameOnPage(Type type, string name) =>
        type.IsAssignableTo(typeof(ConnectionLimits)) ? $"Limits.{name}"
            : type.IsAssignableTo(typeof(ConnectionTimeouts)) ? $"Timeouts.{name}"
            : type.IsAssignableTo(typeof(ConnectionSocketOptions)) ? $"Socket.{name}"
            : type == typeof(AcceptOptions) ? $"Accept.{name}"
            : name;

    private static IEnumerable<PropertyInfo> Numbers(Type type) =>
        type.GetProperties(BindingFlags.Instance | BindingFlags.Public)
            .Where(static p => p.CanWrite && p.Name != OfSystem && Kind(p) is { } kind
                && (kind == typeof(int) || kind == typeof(long) || kind == typeof(TimeSpan)));

    private static Type Kind(PropertyInfo p) => Nullable.GetUnderlyingType(p.PropertyType) ?? p.PropertyType;

    private static IEnumerable<string> RowsOf(Func<object> make, Func<object, object?>? tell)
    {
        object plain = make();
        foreach (PropertyInfo p in Numbers(plain.GetType()))
        {
            Type kind = Kind(p);
            (long least, long most) =
                kind == typeof(int) ? (int.MinValue, (long)int.MaxValue) : (long.MinValue, long.MaxValue);
            object? given = p.GetValue(plain);
            string row = $"{plain.GetType().Name}.{p.Name} = {Text(given)}";
            // A default that means "off" or "none" may be outside the range, and some options accept whole seconds
            // only.
            long unit = 1;
            long[] inside = [];
            foreach (long step in (long[])[1, 4, TimeSpan.TicksPerMicrosecond, TimeSpan.TicksPerMillisecond,
                TimeSpan.TicksPerSecond])
            {
                unit = step;
                inside = [.. Samples(given, kind).Where(n => n % step == 0 && IsInside(n))];
                if (inside.Length > 0) break;
            }

            if (inside.Length == 0)
            {
                yield return $"{row}: only single values";
                continue;
            }

            long low = Edge(inside[0], least), high = Edge(inside[^1], most);
            if (unit > 1) row += $" (steps of {Text(Value(unit, kind))})";
            string beside = string.Concat(((long[])[0, -TimeSpan.TicksPerMillisecond, -1])
                .Where(n => (n < low || n > high) && IsTaken(n)).Select(n => $", or {Text(Value(n, kind))}"));
            yield return $"{row}: {Text(Value(low, kind))} to {Text(Value(high, kind))}{beside}";

            bool IsTaken(long number)
            {
                if (number < least || number > most) return false;
                object options = make();
                try
                {
                    p.SetMethod!.Invoke(options, BindingFlags.DoNotWrapExceptions, null, [Value(number, kind)], null);
                }
                catch (ArgumentException)
                {
                    return false;
                }

                return !IsRefused(tell, options, p.Name);
            }

            bool IsInside(long number) => IsTaken(number) && (IsTaken(number - unit) || IsTaken(number + unit));

            // The last accepted value between an accepted one and the end of the type's range.
            long Edge(long taken, long end)
            {
                long refused = end / unit;
                if (IsInside(refused * unit)) return refused * unit;
                taken /= unit;
                while (Math.Abs((decimal)refused - taken) > 1)
                {
                    long middle = (long)(((decimal)taken + refused) / 2);
                    if (IsInside(middle * unit)) taken = middle;
                    else refused = middle;
                }

                return taken * unit;
            }
        }
    }

    private static IEnumerable<long> Samples(object? given, Type kind)
    {
        long second = TimeSpan.TicksPerSecond;
        IEnumerable<long> more = kind == typeof(TimeSpan)
            ? [second / 10, second, 5 * second, 60 * second]
            : [1, 10, 1000, 4096, 65_536, 1 << 20];
        return (given is null ? more : more.Prepend(Number(given))).Order();
    }

    private static long Number(object value) =>
        value is TimeSpan time ? time.Ticks : Convert.ToInt64(value, CultureInfo.InvariantCulture);

    private static object Value(long number, Type kind) => kind == typeof(TimeSpan)
        ? new TimeSpan(number)
        : Convert.ChangeType(number, kind, CultureInfo.InvariantCulture);

    private static string Text(object? value) =>
        value is null ? "none" : string.Create(CultureInfo.InvariantCulture, $"{value}");
}
