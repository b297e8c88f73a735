using System;

namespace OldPrograms.Host;

/// The loop at the end of the old servers: an empty line, or the end of the input, stops; '!' restarts.
internal static class Keyboard
{
    public static void Serve(Func<bool> start, Func<bool> restart, Func<bool> stop, Action<string> onLine = null)
    {
        Console.Write("Server starting...");
        start();
        Console.WriteLine("Done!");
        Console.WriteLine("Press Enter to stop the server or '!' to restart the server...");
        while (true)
        {
            string line = Console.ReadLine();
            if (string.IsNullOrEmpty(line)) break;
            if (line == "!")
            {
                Console.Write("Server restarting...");
                restart();
                Console.WriteLine("Done!");
            }
            else onLine?.Invoke(line);
        }

        Console.Write("Server stopping...");
        stop();
        Console.WriteLine("Done!");
    }
}
