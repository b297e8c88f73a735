using System.Diagnostics;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;

namespace Whimbrel.Docs;

// Native programs: made by the templates with --aot, published, run, and used as those of the JIT compiler.
public partial class TemplateTests
{
    /// One program in each run; all of them with --deep, because a publish keeps a cpu busy for half a minute.
    public static TheoryData<string> NativePrograms => Depth.IsDeep
        ? ["echo", "chat", "web", "compat"] : ["echo"];

    [Theory, MemberData(nameof(NativePrograms))]
    public async Task A_native_program_is_published_without_warnings_and_serves(string name)
    {
        made.Check();
        await NativeCompiler.CheckAsync();
        var (template, project, argument) = name switch
        {
            "echo" => ("whimbrel-echo", "Echo-Native", "tcp://127.0.0.1:0"),
            "chat" => ("whimbrel-chat", "Chat-Native", "--Chat:Address=tcp://127.0.0.1:0"),
            "web" => ("whimbrel-web", "Web-Native", "--Web:Address=http://127.0.0.1:0"),
            _ => ("", "Compat-Native", ""),
        };
        if (template.Length > 0) await made.MakeAsync(template, project, "--aot");
        else await WriteCompatProgramAsync(made.FolderOf(project));

        var file = await PublishAsync(project);
        await using var server = new RunningProgram(
            Process.Start(Command.Describe(made.FolderOf(project), file, argument))!);
        await server.ListensAsync();
        await (name switch
        {
            "echo" => TemplateExchanges.EchoAsync(server),
            "chat" => TemplateExchanges.ChatAsync(server),
            "web" => TemplateExchanges.WebAsync(server, project),
            _ => CompatAsync(server),
        });
    }

    // Returns the program. It needs no assembly beside it.
    private async Task<string> PublishAsync(string project)
    {
        var clock = Stopwatch.StartNew();
        var (code, output) = await Command.RunAsync(made.FolderOf(project), MadeProjects.Limit, "dotnet", "publish",
            "-c", "Release", "-r", NativeCompiler.Runtime, "-o", "out", "--nologo");
        Assert.True(code == 0, output);
        Assert.DoesNotMatch(Warning(), output);
        var folder = Path.Combine(made.FolderOf(project), "out");
        Assert.Empty(Directory.EnumerateFiles(folder, "*.dll"));
        var file = Path.Combine(folder, project);
        TestContext.Current.TestOutputHelper!.WriteLine(
            $"{project}: {new FileInfo(file).Length / 1024.0 / 1024.0:0.0} MiB, "
            + $"published in {clock.Elapsed.TotalSeconds:0} s");
        return file;
    }

    private static async Task CompatAsync(RunningProgram server)
    {
        using var anna = await server.ConnectAsync();
        using var bert = await server.ConnectAsync();
        Assert.Equal("hello", await TemplateExchanges.AskAsync(anna, "hello\n"));
        Assert.Equal("hello", await TemplateExchanges.AskAsync(bert, ""));
        Assert.Contains("stopped", await server.StopAsync(), StringComparison.Ordinal);
    }

    // The chat of NetCoreServer's users that the README shows, with an end at a signal.
    private static async Task WriteCompatProgramAsync(string folder)
    {
        var version = typeof(Server).Assembly.GetName().Version!.ToString(3);
        Directory.CreateDirectory(folder);
        await File.WriteAllTextAsync(Path.Combine(folder, "Compat-Native.csproj"), $"""
            <Project Sdk="Microsoft.NET.Sdk">
              <PropertyGroup>
                <OutputType>Exe</OutputType>
                <TargetFramework>net10.0</TargetFramework>
                <ImplicitUsings>enable</ImplicitUsings>
                <PublishAot>true</PublishAot>
                <InvariantGlobalization>true</InvariantGlobalization>
              </PropertyGroup>
              <ItemGroup>
                <PackageReference Include="Whimbrel.Compat" Version="{version}" />
              </ItemGroup>
            </Project>
            """);
        await File.WriteAllTextAsync(Path.Combine(folder, "Program.cs"), """
            using System.Net;
            using NetCoreServer;

            var server = new ChatServer(IPAddress.Loopback, 0);
            server.Start();
            Console.WriteLine($"Listening at {((System.Net.IPEndPoint)server.Endpoint)}");
            await Whimbrel.StopSignal.WaitAsync();
            server.Stop();
            Console.WriteLine("stopped");

            class ChatServer(IPAddress address, int port) : TcpServer(address, port)
            {
                protected override TcpSession CreateSession() => new ChatSession(this);
            }

            class ChatSession(TcpServer server) : TcpSession(server)
            {
                protected override void OnReceived(byte[] buffer, long offset, long size) => Server.Multicast(buffer, offset, size);
            }
            """);
    }

    [GeneratedRegex(@"\bwarning [A-Z]*\d*")]
    private static partial Regex Warning();
}
