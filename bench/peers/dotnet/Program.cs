// The .NET servers that Whimbrel is measured against, one per name, each written as its documentation shows. Each
// server is in the file of its name; start here. All echo; two can also push, Kestrel has groups, names with "udp" use
// datagrams, names with "web" HTTP and WebSocket, and --serve selects the kind of the old APIs. `bench/run` sets
// DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS=1 for names that end in `-inline`: the runtime reads it once, at its
// start.

using System.Globalization;
using System.Net;
using System.Security.Cryptography.X509Certificates;
using Whimbrel;
using Whimbrel.Bench.Peers;
using Whimbrel.Compat;

const string Usage = "usage: kestrel|kestrel-inline|socket-async|socket-async-inline|saea|saea-inline|"
    + "socket-udp|kestrel-tls|sslstream|whimbrel-ENGINE-stream|whimbrel-ENGINE-pipe|whimbrel-ENGINE-async|"
    + "whimbrel-udp-ENGINE[-nogso]|kestrel-web|kestrel-whimbrel-ENGINE[-onloop]|whimbrel-web-ENGINE[-metrics|"
    + "-traces]|netcoreserver-ENGINE[-loop]|csharpserver[-loop] [--serve KIND] [--push | --groups | --multicast] "
    + "[--cert FILE --key FILE] [--files FOLDER] [--port N] [--unix PATH] | cluster-node NAME BROKER [RATE "
    + "WARM SECONDS SHARED] | cluster-groups BROKER COUNT | cluster-local BROKER|none EACH COUNT | http-client "
    + "httpclient|whimbrel-handler-ENGINE|whimbrel-pool-ENGINE|whimbrel-session-ENGINE PORT CONNECTIONS "
    + "BYTES WARM SECONDS";

if (args.Length == 0)
{
    return Fail(Usage);
}

var name = args[0];
if (args is ["cluster-node", var node, var broker, .. var publishing] && publishing.Length is 0 or 4)
{
    await ClusterNode.RunAsync(node, broker, publishing, Tell);
    return 0;
}

if (args is ["cluster-groups", var address, var count])
{
    await ClusterGroups.RunAsync(address, int.Parse(count, null));
    return 0;
}

if (args is ["cluster-local", var over, var each, var all])
{
    await ClusterLocal.RunAsync(over == "none" ? null : over, int.Parse(each, null), int.Parse(all, null));
    return 0;
}

if (args is ["http-client", var asker, var portOfServer, var connections, var size, var warm, var seconds])
{
    return await HttpAsker.RunAsync(asker, int.Parse(portOfServer, null), int.Parse(connections, null),
        int.Parse(size, null), double.Parse(warm, CultureInfo.InvariantCulture),
        double.Parse(seconds, CultureInfo.InvariantCulture)) ? 0 : Fail(Usage);
}

var (port, push, groups, multicast) = (0, false, false, false);
string? certificateFile = null, keyFile = null, folder = null, serves = null, path = null;
for (var i = 1; i < args.Length; i++)
{
    if (args[i] == "--push")
    {
        push = true;
    }
    else if (args[i] == "--groups")
    {
        groups = true;
    }
    else if (args[i] == "--multicast")
    {
        multicast = true;
    }
    else if (args[i] == "--cert" && i + 1 < args.Length)
    {
        certificateFile = args[++i];
    }
    else if (args[i] == "--key" && i + 1 < args.Length)
    {
        keyFile = args[++i];
    }
    else if (args[i] == "--serve" && i + 1 < args.Length)
    {
        serves = args[++i];
    }
    else if (args[i] == "--unix" && i + 1 < args.Length)
    {
        path = args[++i];
    }
    else if (args[i] == "--files" && i + 1 < args.Length)
    {
        folder = args[++i];
    }
    else if (args[i] != "--port" || ++i == args.Length
        || !int.TryParse(args[i], NumberStyles.None, CultureInfo.InvariantCulture, out port)
        || port > IPEndPoint.MaxPort)
    {
        return Fail(Usage);
    }
}

var inline = name.EndsWith("-inline", StringComparison.Ordinal);
if (inline && Environment.GetEnvironmentVariable("DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS") != "1")
{
    return Fail($"{name} needs DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS=1 in the environment; bench/run sets it");
}

using var signals = new Signals();
switch (name, push)
{
    case ("kestrel" or "kestrel-inline", false) when groups:
        await KestrelServer.GroupsAsync(port, inline, Tell);
        return 0;
    case ("kestrel" or "kestrel-inline", false):
        await KestrelServer.EchoAsync(port, inline, Tell);
        return 0;
    case ("kestrel" or "kestrel-inline", true):
        await KestrelServer.PushAsync(port, inline, Tell);
        return 0;
    case ("socket-async" or "socket-async-inline", false):
        await SocketAsyncEcho.RunAsync(port, Tell);
        return 0;
    case ("socket-async" or "socket-async-inline", true):
        await SocketAsyncPush.RunAsync(port, Tell);
        return 0;
    case ("kestrel-tls" or "sslstream", false) when certificateFile is not null && keyFile is not null:
        using (var certificate = X509Certificate2.CreateFromPemFile(certificateFile, keyFile))
        {
            await (name == "sslstream"
                ? SslStreamEcho.RunAsync(port, certificate, Tell)
                : KestrelServer.TlsEchoAsync(port, certificate, Tell));
        }

        return 0;
    case ("saea" or "saea-inline", false):
        SaeaEcho.Run(port, Tell);
        return 0;
    case ("socket-udp", false):
        await (multicast ? SocketUdp.MulticastAsync(port, Tell) : SocketUdp.EchoAsync(port, Tell));
        return 0;
    case (_, false) when folder is not null
        && (name == "kestrel-web" || name.StartsWith("kestrel-whimbrel-", StringComparison.Ordinal)):
        using (var certificate = certificateFile is null || keyFile is null
            ? null
            : X509Certificate2.CreateFromPemFile(certificateFile, keyFile))
        {
            await KestrelWeb.RunAsync(port, folder, certificate,
                name.Split('-') is [_, "whimbrel", .. var transport] ? transport : null, Tell);
        }

        return 0;
    case (_, false) when folder is not null && name.Split('-') is ["whimbrel", "web", var engine, .. var more]
        && Enum.TryParse<EngineKind>(engine, ignoreCase: true, out var kind)
        && (more is ["pool"] || Watching.TryStart(string.Join('-', more))):
        var tls = certificateFile is null || keyFile is null
            ? null
            : new TlsOptions { Certificate = TlsCertificate.FromPemFile(certificateFile, keyFile) };
        await WhimbrelWeb.RunAsync(kind, more is ["pool"] ? Scheduling.ThreadPool : Scheduling.Inline, port,
            Path.GetFullPath(folder), tls, Tell);
        return 0;
    case (_, false) when multicast && name.Split('-') is ["whimbrel", "udp", var engine, .. var more]
        && Enum.TryParse<EngineKind>(engine, ignoreCase: true, out var kind):
        await WhimbrelMulticast.RunAsync(kind, port, segmentation: more is not ["nogso"], Tell);
        return 0;
    case (_, false) when name.Split('-') is ["whimbrel", var engine, "stream" or "pipe" or "async"]
        && Enum.TryParse<EngineKind>(engine, ignoreCase: true, out var kind):
        await (name.EndsWith("-async", StringComparison.Ordinal)
            ? WhimbrelAsyncEcho.RunAsync(kind, port, Tell)
            : WhimbrelStreamEcho.RunAsync(kind, port, name.EndsWith("-pipe", StringComparison.Ordinal), Tell));
        return 0;
    case (_, false) when serves is not null && name.Split('-') is ["netcoreserver" or "csharpserver", .. var more]:
        if (!IsOldStarted(name, more, serves))
        {
            return Fail(Usage);
        }

        await Task.Delay(Timeout.Infinite);
        return 0;
    default:
        return Fail(Usage);
}

bool IsOldStarted(string peer, string[] words, string what)
{
    CompatOptions.Callbacks = words is [.., "loop"] ? Scheduling.Inline : Scheduling.ThreadPool;
    if (peer.StartsWith("csharp", StringComparison.Ordinal))
    {
        return CSharpServerPeer.TryStart(what, port, certificateFile, keyFile, Tell);
    }

    if (words is not [var engine, ..] || !Enum.TryParse<EngineKind>(engine, ignoreCase: true, out var kind))
    {
        return false;
    }

    CompatOptions.Engine = new Engine(new EngineOptions { Kind = kind, Loops = 1 });
    var certificate = certificateFile is null || keyFile is null
        ? null
        : X509Certificate2.CreateFromPemFile(certificateFile, keyFile);
    return what == "unix" && path is not null
        ? NetCoreServerPeer.TryStart(path, Say)
        : NetCoreServerPeer.TryStart(what, port, folder, certificate, Tell);
}

// The line that the runner waits for.
void Tell(IPEndPoint endpoint) => Say(endpoint.ToString());

void Say(string address)
{
    Console.Out.WriteLine(string.Create(CultureInfo.InvariantCulture,
        $"listening on {address} (engine {name}, loops 1)"));
    Console.Out.Flush();
}

static int Fail(string message)
{
    Console.Error.WriteLine(message);
    return 2;
}
