// Costs of single operations of the library, each in the file of its name, and an echo server whose loop also has
// timers or a second thread that allocates. `bench/run post`, `bench/run rearm`, `bench/run head`, `bench/run frame`
// and the peers whimbrel-epoll-timers, whimbrel-epoll-metrics and whimbrel-ENGINE-alloc-COLLECTOR start it.

using System.Globalization;
using Whimbrel.Bench.Micro;

const string Usage = "usage: post|rearm|head|frame [--rounds N] | serve [--port N] [--engine NAME] [--timers N] "
    + "[--rearms N] [--allocate MB_PER_SECOND] [--watch metrics]";

Dictionary<string, string> given = [];
for (var i = 1; i + 1 < args.Length; i += 2)
{
    given[args[i]] = args[i + 1];
}

switch (args.Length % 2 == 1 ? args[0] : "")
{
    case "post":
        return PostCost.Run(Number("--rounds", 5));
    case "rearm":
        return RearmCost.Run(Number("--rounds", 5));
    case "head":
        return HeadCost.Run(Number("--rounds", 5));
    case "frame":
        return FrameCost.Run(Number("--rounds", 5));
    case "serve":
        await TimerServer.RunAsync(Number("--port", 0), given.GetValueOrDefault("--engine", "epoll"), Number("--timers",
            0), Number("--rearms", 0), Number("--allocate", 0), given.GetValueOrDefault("--watch", ""));
        return 0;
    default:
        Console.Error.WriteLine(Usage);
        return 2;
}

int Number(string name, int otherwise) =>
    given.TryGetValue(name, out var text)
        ? int.Parse(text, NumberStyles.None, CultureInfo.InvariantCulture)
        : otherwise;
