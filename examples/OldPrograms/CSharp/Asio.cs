using System;
using CSharpServer;

namespace OldPrograms.CSharp;

/// Starts a service, runs a program on it, and stops it.
internal static class Asio
{
    public static void Run(Action<Service> program) { Run(1, program); }

    public static void Run(int threads, Action<Service> program)
    {
        var service = new Service(threads);
        Console.Write("Asio service starting...");
        service.Start();
        Console.WriteLine("Done!");
        program(service);
        Console.Write("Asio service stopping...");
        service.Stop();
        Console.WriteLine("Done!");
    }
}
