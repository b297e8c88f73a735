using Whimbrel.Http.Tests.Programs;
using static System.FormattableString;

namespace Whimbrel.Tests.RabbitMq;

// A RabbitMQ server with its own files, ports and name server: nothing that belongs to the machine is read or changed.
internal sealed class RabbitMqProgram : IAsyncDisposable
{
    // The wrapper in PATH switches the user and loads the settings of the machine.
    private const string Command = "/usr/lib/rabbitmq/bin/rabbitmq-server";

    private readonly RealProgram _program;
    private readonly int _names;

    private RabbitMqProgram(RealProgram program, int names) => (_program, _names) = (program, names);

    // A start needs 5 to 10 s of CPU time, which takes a minute on a machine with many running programs.
    private static readonly TimeSpan s_patience = TimeSpan.FromMinutes(5);

    // With additional lines of configuration, which may name files in the directory, and a data directory that outlives
    // it.
    internal static async Task<RabbitMqProgram> ServeAsync(int port, Func<string, string>? configure = null,
        string? data = null)
    {
        Assert.SkipWhen(!File.Exists(Command), "rabbitmq-server is not installed.");
        int names = RealProgram.FreePort(), nodes = RealProgram.FreePort();
        return new RabbitMqProgram(await RealProgram.ServeAsync("env", port, Arguments, s_patience), names);

        string[] Arguments(string directory)
        {
            File.WriteAllText(Path.Combine(directory, "rabbit.conf"),
                Invariant($"listeners.tcp.1 = 127.0.0.1:{port}\n{configure?.Invoke(directory)}\n"));
            File.WriteAllText(Path.Combine(directory, "plugins"), "[].");
            return
            [
                $"HOME={directory}", Invariant($"ERL_EPMD_PORT={names}"), "ERL_EPMD_ADDRESS=127.0.0.1",
                "ERL_EPMD_RELAXED_COMMAND_CHECK=1", Invariant($"RABBITMQ_NODENAME=w{port}@localhost"),
                Invariant($"RABBITMQ_DIST_PORT={nodes}"),
                $"RABBITMQ_MNESIA_BASE={data ?? directory}", $"RABBITMQ_LOG_BASE={directory}", "RABBITMQ_LOGS=-",
                $"RABBITMQ_ENABLED_PLUGINS_FILE={directory}/plugins",
                $"RABBITMQ_CONFIG_FILE={directory}/rabbit.conf", $"RABBITMQ_CONF_ENV_FILE={directory}/none",
                $"RABBITMQ_PID_FILE={directory}/pid", Command,
            ];
        }
    }

    internal Task StopAsync() => _program.TerminateAsync();

    public async ValueTask DisposeAsync()
    {
        _program.Dispose();
        // Erlang starts its name server as a separate process, which would keep running. The relaxed check stops it
        // even if it believes that the node is alive.
        using RealProgram end = RealProgram.Start("env", Invariant($"ERL_EPMD_PORT={_names}"), "epmd", "-kill");
        await end.EndAsync();
    }
}
