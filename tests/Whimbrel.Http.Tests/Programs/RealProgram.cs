using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Http.Tests.Programs;

/// <summary>Another program, in a directory of its own, which ends with the test.</summary>
internal sealed class RealProgram : IDisposable
{
    internal static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    // A server's directory is not in everybody's PATH.
    private static readonly string[] _places = ["/usr/sbin", "/usr/local/sbin"];

    private readonly Process _process;
    private readonly StringBuilder _said = new();

    private RealProgram(string directory, string command, IEnumerable<string> arguments)
    {
        Directory = directory;
        _process = new Process { StartInfo = new ProcessStartInfo(command, arguments) { WorkingDirectory = directory, RedirectStandardOutput = true, RedirectStandardError = true, RedirectStandardInput = true } };
        _process.OutputDataReceived += Said;
        _process.ErrorDataReceived += Said;
        _process.Start();
        _process.StandardInput.Close();
        _process.BeginOutputReadLine();
        _process.BeginErrorReadLine();
    }

    internal string Directory { get; }

    internal string Output
    {
        get
        {
            lock (_said) return _said.ToString();
        }
    }

    /// <summary>Where a command is; skips the test when it is nowhere.</summary>
    internal static string Find(string command)
    {
        string? found = _places.Concat((Environment.GetEnvironmentVariable("PATH") ?? "").Split(':')).Select(d => Path.Combine(d, command)).FirstOrDefault(File.Exists);
        Assert.SkipWhen(found is null, $"{command} is not installed");
        return found!;
    }

    /// <summary>Starts it, in a directory of its own.</summary>
    internal static RealProgram Start(string command, params string[] arguments) => new(System.IO.Directory.CreateTempSubdirectory("whimbrel-http-").FullName, Find(command), arguments);

    /// <summary>Runs it to its end, and gives what it said.</summary>
    internal static async Task<string> RunAsync(string command, params string[] arguments)
    {
        using RealProgram program = Start(command, arguments);
        await program._process.WaitForExitAsync().WaitAsync(Patience);
        Assert.True(program._process.ExitCode == 0, $"{command} {string.Join(' ', arguments)}: {program._process.ExitCode}\n{program.Output}");
        return program.Output;
    }

    /// <summary>It ends by itself.</summary>
    internal Task EndAsync() => _process.WaitForExitAsync().WaitAsync(Patience);

    /// <summary>A server that says it is there by accepting on this port.</summary>
    internal static async Task<RealProgram> ServeAsync(string command, int port, Func<string, string[]> configure)
    {
        string path = Find(command), directory = System.IO.Directory.CreateTempSubdirectory("whimbrel-http-").FullName;
        if (!OperatingSystem.IsWindows()) File.SetUnixFileMode(directory, (UnixFileMode)511); // it may go on as another user
        RealProgram program = new(directory, path, configure(directory));
        for (long start = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(start) < Patience && !program._process.HasExited;)
        {
            try
            {
                using Socket probe = new(SocketType.Stream, ProtocolType.Tcp);
                await probe.ConnectAsync(IPAddress.Loopback, port);
                return program;
            }
            catch (SocketException)
            {
                await Task.Delay(20); // tidy: waits because another program begins to listen, and says nothing of it
            }
        }

        string said = program.Output;
        program.Dispose();
        throw new InvalidOperationException($"{command} does not listen on {port}: {said}");
    }

    /// <summary>A port that was free a moment ago: below those that the system gives to connections, so that none of them takes it meanwhile.</summary>
    internal static int FreePort()
    {
        while (true)
        {
            int port = Random.Shared.Next(20_000, 32_000);
            try
            {
                using Socket socket = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
                socket.Bind(new IPEndPoint(IPAddress.Loopback, port));
                return port;
            }
            catch (SocketException)
            {
                // Somebody's: another one.
            }
        }
    }

    private void Said(object sender, DataReceivedEventArgs line)
    {
        // The end of a stream is told as a line of null: those of both come, and the one that is empty may come first.
        if (line.Data is null) return;
        lock (_said) _said.Append(line.Data).Append('\n');
    }

    public void Dispose()
    {
        if (!_process.HasExited)
        {
            _process.Kill(entireProcessTree: true);
            _process.WaitForExit(Patience);
        }

        _process.Dispose();
        System.IO.Directory.Delete(Directory, recursive: true);
    }
}
