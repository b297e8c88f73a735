namespace Whimbrel.Compat.Tests.Programs;

/// <summary>Stories that the programs of both old libraries share, with different name prefixes.</summary>
internal static class ProgramStory
{
    /// <summary>A chat of two clients; the server restarts, and the clients reconnect.</summary>
    /// <returns>Output of the server, the first and the second client.</returns>
    internal static (string Server, string First, string Second) Chat(string folder, string prefix, string family,
        string[] serverPlace, string[] clientPlace)
    {
        string ready = family == "Ssl" ? "handshaked a new session" : "connected a new session",
            greeting = $"Incoming: Hello from {family.ToUpperInvariant()} chat!";
        using OldProgram chat = new(folder, $"{prefix}{family}ChatServer", serverPlace);
        chat.Expect("Press Enter");
        using OldProgram first = new(folder, $"{prefix}{family}ChatClient", clientPlace),
            second = new(folder, $"{prefix}{family}ChatClient", clientPlace);
        first.Expect(ready);
        first.Expect(greeting);
        second.Expect(greeting);
        first.Type("good day");
        // Waits for both clients: otherwise the next message of the server could arrive in the same piece.
        first.Expect("Incoming: good day");
        second.Expect("Incoming: good day");
        chat.Expect("Incoming: good day");
        chat.Type("to all");
        first.Expect("Incoming: (admin) to all");
        second.Expect("Incoming: (admin) to all");
        // Both clients reconnect by themselves, and so does one that is disconnected by the server.
        chat.Type("!");
        chat.Expect("Server restarting..."); // callbacks print at the same time
        first.Expect(greeting, 2);
        second.Expect(greeting, 2);
        first.Type("!");
        first.Expect(greeting, 3);
        first.End();
        Assert.Contains("Client disconnecting...", first.Output, StringComparison.Ordinal);
        second.End();
        chat.End();
        Assert.Contains("Server stopping...", chat.Output, StringComparison.Ordinal);
        foreach (OldProgram program in (OldProgram[])[chat, first, second])
            Assert.DoesNotContain("caught an error", program.Output, StringComparison.Ordinal);
        return (chat.Output, first.Output, second.Output);
    }

    internal static void UdpEcho(string folder, string prefix)
    {
        string port = OldProgram.FreeUdpPort();
        using OldProgram server = new(folder, prefix + "UdpEchoServer", port);
        server.Expect("Press Enter");
        using OldProgram client = new(folder, prefix + "UdpEchoClient", "127.0.0.1", port);
        client.Expect("connected a new session");
        client.Type("hello");
        client.Expect("Incoming: hello");
        server.Type("!");
        server.Expect("Server restarting...Done!");
        client.Type("again");
        client.Expect("Incoming: again");
        client.Type("!");
        client.Expect("connected a new session", 2);
        client.End();
        server.End();
        Assert.DoesNotContain("caught an error", server.Output, StringComparison.Ordinal);
    }

    internal static void UdpGroup(string folder, string prefix, string group)
    {
        string port = OldProgram.FreeUdpPort();
        using OldProgram first = new(folder, prefix + "UdpMulticastClient", "0.0.0.0", group, port),
            second = new(folder, prefix + "UdpMulticastClient", "0.0.0.0", group, port);
        foreach (OldProgram client in (OldProgram[])[first, second])
        {
            client.Expect("Multicast UDP client", 2); // connected, and then joined, or a message why not
            Assert.SkipWhen(client.Output.Contains("caught an error", StringComparison.Ordinal),
                "This machine routes no multicast.");
            client.Expect($"joined the group {group}");
        }

        using OldProgram server = new(folder, prefix + "UdpMulticastServer", group, port);
        server.Expect("Press Enter");
        server.Type("news");
        first.Expect("Incoming: (admin) news");
        second.Expect("Incoming: (admin) news");
        first.End();
        second.End();
        server.End();
    }
}
