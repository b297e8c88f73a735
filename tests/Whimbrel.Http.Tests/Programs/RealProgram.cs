using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Whimbrel.Http.Tests.Programs;

/// <summary>An external program that runs in its own directory and is stopped at the end of the test.</summary>
internal sealed class RealProgram : IDisposable
{
    internal static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    // Directories of servers that are not in PATH on every system.
    private static readonly string[] _places = ["/usr/sbin", "/usr/local/sbin"];

    private readonly Process _process;
    private readonly StringBuilder _said = new();

    private RealProgram(string directory, string command, IEnumerable<string> arguments)
    {
        Directory = directory;
        _process = new Process
        {
            StartInfo = new ProcessStartInfo(command, arguments)
            {
                WorkingDirectory = directory,
                RedirectStandardOutput = true,
                RedirectStandardError = true,
                RedirectStandardInput = true
            }
        };
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

    /// <summary>Full path of a command. Skips the test if it is not installed.</summary>
    internal static string Find(string command)
    {
        string? found = _places.Concat((Environment.GetEnvironmentVariable("PATH") ?? "").Split(':'))
            .Select(d => Path.Combine(d, command)).FirstOrDefault(File.Exists);
        Assert.SkipWhen(found is null, $"{command} is not installed.");
        return found!;
    }

    /// <summary>Starts it, in a directory of its own.</summary>
    internal static RealProgram Start(string command, params string[] arguments) =>
        new(System.IO.Directory.CreateTempSubdirectory("whimbrel-http-").FullName, Find(command), arguments);

    /// <summary>Runs the program until it exits, and returns its output.</summary>
    internal static async Task<string> RunAsync(string command, params string[] arguments)
    {
        using RealProgram program = Start(command, arguments);
        await program._process.WaitForExitAsync().WaitAsync(Patience);
        Assert.True(program._process.ExitCode == 0,
            $"{command} {string.Join(' ', arguments)}: {program._process.ExitCode}\n{program.Output}");
        return program.Output;
    }

    /// <summary>Waits until the program exits by itself.</summary>
    internal Task EndAsync() => _process.WaitForExitAsync().WaitAsync(Patience);

    /// <summary>Sends SIGTERM, and waits until the program has exited.</summary>
    internal async Task TerminateAsync()
    {
        await RunAsync("kill", "-TERM", $"{_process.Id}");
        await EndAsync();
    }

    /// <summary>Starts a server that is ready when it accepts on this port.</summary>
    /// <param name="command">The program.</param>
    /// <param name="port">The port of 127.0.0.1 at which it listens.</param>
    /// <param name="configure">Makes its arguments, and files in the directory that it receives.</param>
    /// <param name="patience">Longest time until it listens. Null: <see cref="Patience"/>.</param>
    internal static async Task<RealProgram> ServeAsync(string command, int port, Func<string, string[]> configure,
        TimeSpan? patience = null)
    {
        string path = Find(command), directory = System.IO.Directory.CreateTempSubdirectory("whimbrel-http-").FullName;
        // the program may switch to another user
        if (!OperatingSystem.IsWindows()) File.SetUnixFileMode(directory, (UnixFileMode)511);
        TimeSpan most = patience ?? Patience;
        long start = Stopwatch.GetTimestamp();
        // A process that was killed a moment ago may still listen there. Otherwise it would count as the new one, which
        // then cannot bind.
        // tidy: waits because a killed program does not say when it is gone
        while (await AcceptsAsync(port) && Stopwatch.GetElapsedTime(start) < most) await Task.Delay(20);
        RealProgram program = new(directory, path, configure(directory));
        while (Stopwatch.GetElapsedTime(start) < most && !program._process.HasExited)
        {
            if (await AcceptsAsync(port)) return program;
            await Task.Delay(20); // tidy: waits because another program begins to listen, and says nothing of it
        }

        string what = program._process.HasExited
            ? $"ended with exit code {program._process.ExitCode} before it listened"
            : $"did not listen within {most.TotalSeconds} s";
        string said = program.Output;
        program.Dispose();
        throw new InvalidOperationException($"{command} {what} on port {port}. Its output:\n{said}");
    }

    private static async Task<bool> AcceptsAsync(int port)
    {
        try
        {
            using Socket probe = new(SocketType.Stream, ProtocolType.Tcp);
            await probe.ConnectAsync(IPAddress.Loopback, port);
            return true;
        }
        catch (SocketException)
        {
            return false;
        }
    }

    /// <summary>
    /// A port that was free a moment ago: below those that the system gives to connections, so that none of them takes
    /// it meanwhile.
    /// </summary>
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
                // The port is in use by another process: try the next one.
            }
        }
    }

    private void Said(object sender, DataReceivedEventArgs line)
    {
        // The end of a stream is reported as a null line. Both streams report it, and the empty one may be first.
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
        Remove(Directory);
    }

    /// <summary>
    /// Deletes a directory of a program that was killed: processes that it had started may write there for a moment
    /// longer.
    /// </summary>
    internal static void Remove(string directory)
    {
        for (long start = Stopwatch.GetTimestamp(); ;)
        {
            try
            {
                System.IO.Directory.Delete(directory, recursive: true);
                return;
            }
            catch (DirectoryNotFoundException)
            {
                if (!System.IO.Directory.Exists(directory)) return;
            }
            catch (IOException) when (Stopwatch.GetElapsedTime(start) < Patience)
            {
                Thread.Sleep(20); // tidy: waits because a killed program does not say when all its processes are gone
            }
        }
    }
}
