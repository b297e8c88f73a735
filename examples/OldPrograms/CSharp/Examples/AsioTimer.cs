using System;
using System.Threading;
using CSharpServer;
using Timer = CSharpServer.Timer;

namespace OldPrograms.CSharp.Examples;

/// Waits for a timer on the calling thread, on the service's thread, and cancels one.
internal static class AsioTimer
{
    private static void Main(string[] args)
    {
        Asio.Run(service =>
        {
            var timer = new TellingTimer(service);
            timer.Setup(DateTime.UtcNow.AddMilliseconds(500));
            timer.WaitSync();
            timer.Setup(TimeSpan.FromMilliseconds(500));
            timer.WaitAsync();
            timer.Told.WaitOne();
            timer.Setup(TimeSpan.FromSeconds(60));
            timer.WaitAsync();
            timer.Cancel();
            timer.Told.WaitOne();
        });
    }

    private class TellingTimer : Timer
    {
        public readonly AutoResetEvent Told = new(false);

        public TellingTimer(Service service) : base(service) { }

        protected override void OnTimer(bool canceled)
        {
            Console.WriteLine("Asio timer " + (canceled ? "canceled" : "expired"));
            Told.Set();
        }

        protected override void OnError(int error, string category, string message)
        {
            Console.WriteLine($"Asio timer caught an error with code {error} and category '{category}': {message}");
        }
    }
}
