using System.Diagnostics;
using Whimbrel.Conformance;
using Whimbrel.Tls;

namespace Whimbrel.Tests.Tls;

/// <summary> A process that exits while threads are inside libssl: these tests start themselves again as such
/// processes. If libssl was initialized without NO_ATEXIT, it frees its tables at exit, and 6 of 15 processes crashed.
/// </summary>
public sealed class ExitUnderLoad
{
    private const string Variable = "WHIMBREL_TEST_EXIT_UNDER_LOAD";
    private const int Children = 8;
    private const int Threads = 3;

    [Fact]
    public void A_process_that_ends_while_its_threads_are_inside_libssl_ends_well()
    {
        Assert.SkipUnless(OpenSslLibrary.IsUsable, OpenSslLibrary.Refusal ?? "");
        List<int> codes = [];
        for (int i = 0; i < Children; i++)
        {
            ProcessStartInfo start = new("dotnet", [typeof(ExitUnderLoad).Assembly.Location])
            {
                RedirectStandardOutput = true,
                RedirectStandardError = true
            };
            start.Environment[Variable] = "1";
            start.Environment["DOTNET_STARTUP_HOOKS"] = typeof(ExitUnderLoad).Assembly.Location;
            using Process child = Process.Start(start)!;
            string said = child.StandardOutput.ReadToEnd() + child.StandardError.ReadToEnd();
            child.WaitForExit();
            codes.Add(child.ExitCode);
            if (child.ExitCode != Threads) TestContext.Current.TestOutputHelper!.WriteLine($"{child.ExitCode}: {said}");
        }

        Assert.All(codes, static code => Assert.Equal(Threads, code));
    }

    /// <summary>Runs in a child process instead of the test program's Main (<see cref="StartupHook"/>).</summary>
    internal static void BeChild()
    {
        if (Environment.GetEnvironmentVariable(Variable) is null) return;
        // Initialized before the framework's cryptography initializes libssl in its own way.
        if (!OpenSslLibrary.IsUsable) Environment.Exit(1);
        OpenSslProfile server = new(TestCertificates.ServerOptions, true),
            client = new(TestCertificates.ClientOptions, false);
        using CountdownEvent busy = new(Threads);
        for (int i = 0; i < Threads; i++) new Thread(() => Work(server, client, busy)) { IsBackground = true }.Start();
        busy.Wait();
        // The other threads keep running. The exit code is one that no crash and no failed start uses.
        Environment.Exit(Threads);
    }

    private static void Work(OpenSslProfile server, OpenSslProfile client, CountdownEvent busy)
    {
        for (int i = 0; ; i++)
        {
            using OpenSslEcho echo = new(server, client);
            for (int k = 0; k < 20; k++) echo.PingPong(1000);
            if (i == 3) busy.Signal();
        }
    }
}
