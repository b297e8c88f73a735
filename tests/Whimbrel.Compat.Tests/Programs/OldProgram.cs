using System.Diagnostics;
using System.Net;
using System.Net.Sockets;

namespace Whimbrel.Compat.Tests.Programs;

/// <summary>One of the old programs as a process: lines in, lines out.</summary>
internal sealed class OldProgram : IDisposable
{
    private static readonly TimeSpan s_deadline = TimeSpan.FromSeconds(90);

    private readonly Process _process;
    private readonly List<string> _lines = [];
    private readonly string _name;

    internal OldProgram(string folder, string name, params string[] arguments)
        : this(folder, name, null, arguments)
    {
    }

    /// <param name="folder">Working directory.</param>
    /// <param name="name">Name of the program.</param>
    /// <param name="callbacks">Value of WHIMBREL_COMPAT_CALLBACKS.</param>
    /// <param name="arguments">Command line.</param>
    internal OldProgram(string folder, string name, string? callbacks, string[] arguments)
    {
        _name = name;
        _process = new Process
        {
            StartInfo = new ProcessStartInfo("dotnet", [BuiltProgram.PathOf("OldPrograms"), name, .. arguments])
            {
                WorkingDirectory = folder,
                RedirectStandardInput = true,
                RedirectStandardOutput = true,
                RedirectStandardError = true,
            },
        };
        if (callbacks is not null) _process.StartInfo.Environment["WHIMBREL_COMPAT_CALLBACKS"] = callbacks;
        _process.OutputDataReceived += Add;
        _process.ErrorDataReceived += Add;
        _process.Start();
        _process.BeginOutputReadLine();
        _process.BeginErrorReadLine();
    }

    internal string Output
    {
        get
        {
            lock (_lines) return string.Join('\n', _lines);
        }
    }

    /// <summary> A free port outside the ephemeral range, which the kernel does not assign by itself: the program that
    /// will use it needs time to start, and other programs open many ports meanwhile. </summary>
    internal static string FreePort()
    {
        while (true)
        {
            int port = Random.Shared.Next(12_000, 32_000);
            try
            {
                using TcpListener listener = new(IPAddress.Any, port);
                listener.Start();
                return port.ToString(System.Globalization.CultureInfo.InvariantCulture);
            }
            catch (SocketException)
            {
                // The port is in use: try the next one.
            }
        }
    }

    /// <summary>A free UDP port.</summary>
    internal static string FreeUdpPort()
    {
        using Socket socket = new(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        socket.Bind(new IPEndPoint(IPAddress.Any, 0));
        return ((IPEndPoint)socket.LocalEndPoint!).Port.ToString(System.Globalization.CultureInfo.InvariantCulture);
    }

    internal void Type(string line) => _process.StandardInput.WriteLine(line);

    /// <summary>Waits until this many lines contain the text.</summary>
    internal void Expect(string text, int times = 1)
    {
        long end = Environment.TickCount64 + (long)s_deadline.TotalMilliseconds;
        lock (_lines)
        {
            while (_lines.Count(l => l.Contains(text, StringComparison.Ordinal)) < times)
            {
                Assert.True(Environment.TickCount64 < end && Monitor.Wait(_lines, s_deadline),
                    $"{_name} did not say '{text}' {times} times, but:\n{Output}");
            }
        }
    }

    /// <summary>Ends the program with an empty line, and expects exit code 0.</summary>
    internal void End()
    {
        Type("");
        WaitForExit();
    }

    /// <summary>Waits for a performance client, ends the server, and checks that neither reported an error.</summary>
    /// <param name="asking">The client.</param>
    /// <param name="serving">The server.</param>
    /// <param name="least">Least number of messages: all that the clients sent first, or one per client.</param>
    /// <returns>Output of the client.</returns>
    internal static string Measured(OldProgram asking, OldProgram serving, long least)
    {
        asking.WaitForExit();
        string output = asking.Output;
        Assert.Contains("All clients connected!\n", output, StringComparison.Ordinal);
        Assert.Contains("Errors: 0\n", output, StringComparison.Ordinal);
        Assert.Contains("Message throughput: ", output, StringComparison.Ordinal);
        Assert.DoesNotContain("Stalled", output, StringComparison.Ordinal);
        // Lost datagrams shrink the window of a UDP client, possibly to zero.
        if (!asking._name.Contains("Udp", StringComparison.Ordinal))
            Assert.DoesNotContain("Fewest bytes of a client: 0\n", output, StringComparison.Ordinal);
        // A multicast happens at the beginning of a second, so one interval of the client may contain none.
        if (!asking._name.Contains("Udp", StringComparison.Ordinal)
            && !asking._name.Contains("Multicast", StringComparison.Ordinal))
            Assert.DoesNotContain("Silent", output, StringComparison.Ordinal);
        const string Total = "Total messages: ";
        long total = long.Parse(output.Split('\n').Single(static l => l.StartsWith(Total, StringComparison.Ordinal))
            .AsSpan(Total.Length), System.Globalization.CultureInfo.InvariantCulture);
        Assert.True(total >= least, $"{total} messages of at least {least} came");
        serving.End();
        Assert.DoesNotContain("caught an error", serving.Output, StringComparison.Ordinal);
        return output;
    }

    internal void WaitForExit(int code = 0)
    {
        Assert.True(_process.WaitForExit(s_deadline), $"{_name} does not end:\n{Output}");
        _process.WaitForExit();
        Assert.True(_process.ExitCode == code, $"{_name} ended with {_process.ExitCode}:\n{Output}");
    }

    public void Dispose()
    {
        if (!_process.HasExited) _process.Kill(entireProcessTree: true);
        _process.Dispose();
    }

    private void Add(object sender, DataReceivedEventArgs e)
    {
        if (e.Data is null) return;
        lock (_lines)
        {
            _lines.Add(e.Data);
            Monitor.PulseAll(_lines);
        }
    }
}
