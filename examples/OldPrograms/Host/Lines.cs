using System;

namespace OldPrograms.Host;

/// The loop at the end of the old clients: an empty line, or the end of the input, stops; '!' reconnects.
internal static class Lines
{
    public static void Read(Action reconnect, Action<string> send, Action connect, Action stop)
    {
        Console.Write("Client connecting...");
        connect();
        Console.WriteLine("Done!");
        Console.WriteLine("Press Enter to stop the client or '!' to reconnect the client...");
        while (true)
        {
            string line = Console.ReadLine();
            if (string.IsNullOrEmpty(line)) break;
            if (line == "!")
            {
                Console.Write("Client disconnecting...");
                reconnect();
                Console.WriteLine("Done!");
            }
            else send?.Invoke(line);
        }

        Console.Write("Client disconnecting...");
        stop();
        Console.WriteLine("Done!");
    }
}
