using System.Diagnostics;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;

namespace Whimbrel.Docs;

/// A server that was made from a template or a page. It is killed when the test ends without a stop.
internal sealed partial class RunningProgram(Process process) : IAsyncDisposable
{
    public static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

    private readonly StringBuilder _said = new();

    public IPEndPoint EndPoint { get; private set; } = null!;

    public async Task ListensAsync()
    {
        while (await process.StandardOutput.ReadLineAsync().WaitAsync(Patience) is { } line)
        {
            _said.AppendLine(line);
            if (Listens().Match(line) is not { Success: true } place) continue;
            EndPoint = IPEndPoint.Parse(place.Groups["place"].Value);
            return;
        }
        Assert.Fail($"It ended before it listened:\n{_said}\n{await process.StandardError.ReadToEndAsync()}");
    }

    public async Task<TcpClient> ConnectAsync()
    {
        var client = new TcpClient();
        await client.ConnectAsync(EndPoint);
        return client;
    }

    /// Stops the program, and returns its output.
    public async Task<string> StopAsync()
    {
        Assert.SkipUnless(OperatingSystem.IsLinux() || OperatingSystem.IsMacOS(), "The test needs signals.");
        using var kill = Process.Start("kill",
            ["-TERM", process.Id.ToString(System.Globalization.CultureInfo.InvariantCulture)]);
        _said.Append(await process.StandardOutput.ReadToEndAsync().WaitAsync(Patience));
        await process.WaitForExitAsync().WaitAsync(Patience);
        Assert.True(process.ExitCode == 0,
            $"exit code {process.ExitCode}\n{_said}\n{await process.StandardError.ReadToEndAsync()}");
        return _said.ToString();
    }

    public ValueTask DisposeAsync()
    {
        if (!process.HasExited) process.Kill(entireProcessTree: true);
        process.Dispose();
        return ValueTask.CompletedTask;
    }

    [GeneratedRegex(@"(Listening|listens) at (?<place>127\.0\.0\.1:\d+)")]
    private static partial Regex Listens();
}
