// The .NET echo servers that Whimbrel is measured against, one per name, each written the way its documentation shows.
// Start here; each server is in the file of its name. `bench/run` sets
// DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS=1 for the names that end in `-inline`: the runtime reads it once, at start.

using System.Globalization;
using System.Net;
using Whimbrel.Bench.Peers;

const string Usage = "usage: kestrel|kestrel-inline|socket-async|socket-async-inline|saea|saea-inline [--port N]";

if (args.Length is not (1 or 3) || (args.Length == 3 && args[1] != "--port"))
{
    return Fail(Usage);
}

var port = 0;
if (args.Length == 3 && (!int.TryParse(args[2], NumberStyles.None, CultureInfo.InvariantCulture, out port) || port > IPEndPoint.MaxPort))
{
    return Fail($"--port must be between 0 and {IPEndPoint.MaxPort}, not '{args[2]}'");
}

var name = args[0];
var inline = name.EndsWith("-inline", StringComparison.Ordinal);
if (inline && Environment.GetEnvironmentVariable("DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS") != "1")
{
    return Fail($"{name} needs DOTNET_SYSTEM_NET_SOCKETS_INLINE_COMPLETIONS=1 in the environment; bench/run sets it");
}

using var signals = new Signals();
switch (name)
{
    case "kestrel" or "kestrel-inline":
        await KestrelEcho.RunAsync(port, inline, Tell);
        return 0;
    case "socket-async" or "socket-async-inline":
        await SocketAsyncEcho.RunAsync(port, Tell);
        return 0;
    case "saea" or "saea-inline":
        SaeaEcho.Run(port, Tell);
        return 0;
    default:
        return Fail(Usage);
}

// The line that the runner waits for.
void Tell(IPEndPoint endpoint)
{
    Console.Out.WriteLine(string.Create(CultureInfo.InvariantCulture, $"listening on {endpoint} (engine {name}, loops 1)"));
    Console.Out.Flush();
}

static int Fail(string message)
{
    Console.Error.WriteLine(message);
    return 2;
}
